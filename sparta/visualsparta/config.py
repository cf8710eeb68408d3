"""A VisualSparta model's configuration, as saved in its `config.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, PreTrainedConfig

from sparta.json_values import Json
from sparta.model_id import model_folder


class ImageHeadConfig(PreTrainedConfig):
    """Configuration of an `ImageHead`, which takes the place of the image transformer.

    Args:
        vocab_size: V, terms.
        hidden_size: h, numbers of a photo's vector, the last of which is always 1.
        intermediate_size: width of the hidden layer; 0 for features that are vectors of a space
            shared with texts already (`JointHead`).
        patches: whether a term's score is its maximum over the whole photo and its parts; without
            it the whole photo decides.
    """

    model_type = "image_head"

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 257,
        intermediate_size: int = 1024,
        patches: bool = False,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.patches = patches
        super().__init__(**kwargs)


class DenseHeadConfig(PreTrainedConfig):
    """Configuration of a `DenseHead`, which takes the place of the image transformer.

    Args:
        vocab_size: V, terms.
        hidden_size: h, numbers of an image's vector, the last of which is always 1.
        dense: configuration of the dense VSE model.
        patches: as of an `ImageHeadConfig`.
    """

    model_type = "dense_head"

    def __init__(
        self,
        vocab_size: int = 30522,
        hidden_size: int = 1025,
        dense: Json | None = None,
        patches: bool = False,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.dense = dense or {}
        self.patches = patches
        super().__init__(**kwargs)


AutoConfig.register(ImageHeadConfig.model_type, ImageHeadConfig)
AutoConfig.register(DenseHeadConfig.model_type, DenseHeadConfig)


class VisualSpartaConfig(PreTrainedConfig):
    """Configuration of `VisualSparta`.

    Args:
        encoder: configuration of the BERT-like image transformer, as a dict with `model_type`; that
            of an `ImageHead` where a photo has one vector, which its whole decides.
        feature_dim: d of the visual vectors (2048 for a Faster R-CNN's).
        feature_source: what made the features (`FeatureSource` as a dict), None for any.
        stem: channels of the three stages of a convolutional stem, for raw pixel patches alone; []
            for none.
        use_visual: whether the regions take part; without them an image is its labels alone.
        use_locations: whether the six location numbers are concatenated (equation 4).
        use_labels: whether label and attribute tokens are fed to the transformer (equation 8).
        use_attributes: whether a label's attribute goes before it.
        max_regions: regions an image may have.
        max_label_tokens: word pieces of labels and attributes an image may have.
        label_segment: segment id of label tokens; Oscar was pre-trained with 1.
        square_root: take the square root of the visual vectors, signs kept, which evens out
            the few large values that ReLU networks give.
        region_layer_norm: normalise projected regions, as some Oscar checkpoints do.
        region_norm_eps: added to the variance when normalising; Oscar's is 1e-12.
        region_dropout: share of each projected region's numbers dropped in training.
        input_dropout: share of each visual vector's numbers dropped in training.
        initial_bias: where b of equation 11 starts. Above the spread of the initial y every term
            has a gradient at the start; ReLU passes none to a term that scores 0 everywhere.
        tie_query_embedding: score with the encoder's own token embedding; otherwise the query
            embedding is a parameter of its own (section 3.1.1).
        offset: what an index subtracts from each term's scores, unless it is told otherwise: their
            "mean", "median" or "minimum" over its images, or "none".
        frequency_power: p, likewise: an image keeps its largest products of a score and
            (f + 1)^p, f the term's frequency.
        dual_encoder: hub name or folder of the dual encoder whose image side the model has, None
            for no such.
        text_key: hash of that encoder's weights and tokenizer (`networks.encoder.text_key`).
            Re-ranking refuses an encoder with another hash.
        compact: whether the folder has the weights in half precision and the query embedding of
            trained terms only.

    Raises:
        ValueError: if neither regions nor labels are used.
    """

    model_type = "visual_sparta"

    def __init__(
        self,
        encoder: Json | None = None,
        feature_dim: int = 2048,
        feature_source: Json | None = None,
        stem: list[int] | None = None,
        use_visual: bool = True,
        use_locations: bool = True,
        use_labels: bool = True,
        use_attributes: bool = True,
        max_regions: int = 50,
        max_label_tokens: int = 70,
        label_segment: int = 1,
        square_root: bool = False,
        region_layer_norm: bool = False,
        region_norm_eps: float = 1e-5,
        region_dropout: float = 0.1,
        input_dropout: float = 0.0,
        initial_bias: float = 0.0,
        tie_query_embedding: bool = False,
        offset: str = "mean",
        frequency_power: float = 0.3,
        dual_encoder: str | None = None,
        text_key: str | None = None,
        compact: bool = False,
        **kwargs: Any,
    ) -> None:
        self.encoder = encoder or {"model_type": "bert"}
        self.feature_dim = feature_dim
        self.feature_source = feature_source
        if not (use_visual or use_labels):
            raise ValueError("an image needs its regions (use_visual), its labels or both")
        self.stem = stem or []
        self.use_visual = use_visual
        self.use_locations = use_locations
        self.use_labels = use_labels
        self.use_attributes = use_attributes
        self.max_regions = max_regions
        self.max_label_tokens = max_label_tokens
        self.label_segment = label_segment
        self.square_root = square_root
        self.region_layer_norm = region_layer_norm
        self.region_norm_eps = region_norm_eps
        self.region_dropout = region_dropout
        self.input_dropout = input_dropout
        self.initial_bias = initial_bias
        self.tie_query_embedding = tie_query_embedding
        self.offset = offset
        self.frequency_power = frequency_power
        self.dual_encoder = dual_encoder
        self.text_key = text_key
        self.compact = compact
        # The name under which transformers looks up whether `_tied_weights_keys` apply.
        super().__init__(**{**kwargs, "tie_word_embeddings": tie_query_embedding})

    @property
    def encoder_config(self) -> PreTrainedConfig:
        """The image transformer's own configuration."""
        options = dict(self.encoder)
        return AutoConfig.for_model(options.pop("model_type"), **options)

    @classmethod
    def from_pretrained(cls, name: str | Path, **kwargs: Any) -> VisualSpartaConfig:  # type: ignore[override]
        """Read the configuration of a hub name, a folder, or a model of the package."""
        config: VisualSpartaConfig = super().from_pretrained(
            model_folder(name, weights=False), **kwargs
        )
        return config
