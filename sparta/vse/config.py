"""A dense VSE model's configuration, as saved in its `config.json`."""

from __future__ import annotations

from inspect import get_annotations
from typing import Any, Literal, get_args

from transformers import PreTrainedConfig

from sparta.errors import InputError
from sparta.json_values import Json

Visual = Literal["region", "grid", "patch", "whole"]
VisionVectors = Literal["output", "stored"]
Text = Literal["bigru", "gru", "bert", "sentence"]
Words = Literal["patterns", "nltk"]
ViewProjections = Literal["shared", "separate"]
CHOICES = {
    "visual": Visual,
    "vision_vectors": VisionVectors,
    "text": Text,
    "words": Words,
    "view_projections": ViewProjections,
}


class VseConfig(PreTrainedConfig):
    """Configuration of `sparta.vse.model.VseModel`.

    Attributes:
        name: what a server calls the model, such as "vse++", "vse-inf", "vse-2ad", "mv-vse".
        feature_dim: d of the visual vectors.
        feature_source: what made the features (`FeatureSource` as a dict), None for any. With
            `vision`: the network it began as, the size photos are stretched to (`image_size`) and
            Pillow's filter for it (`extra["resample"]`).
        visual: how they are projected: "region" adds a residual MLP with batch norm to the linear
            layer that "grid" and "patch" have alone (GPO section 5.1); "whole" takes the last
            vector alone, that of the whole photo, and projects it by an `ImageHead`.
        visual_width: of that head's hidden layer.
        square_root: take the square root of the visual vectors first, signs kept.
        input_dropout: share of each visual vector's numbers dropped in training.
        max_regions: vectors an image may have, None for any number.
        vision: configuration of a vision network inside the model, which then takes photos
            instead of features; a dict with `model_type`.
        vision_vectors: what that network gives: "output", its cells or all its tokens, CLS
            included, as in the papers' published code; or "stored", what extraction stores: cells
            or patches without CLS, and their mean.
        text: "bigru" over words, "gru" for one that reads forwards alone (as MV-VSE's published
            code does, with the text pooling "last"), or "bert" for any BERT-like transformer over
            word pieces; "sentence" pools that transformer's own tokens, and projects the vector and
            the word pieces by a `TextHead`.
        words: how a GRU's texts are split: by the "patterns" of the folder's tokenizer, or by
            "nltk", as published vocabularies were (`sparta.vse.tokenizer`).
        word_dim: width of the GRU's word embedding.
        vocabulary_size: words the GRU knows, special ones included.
        text_encoder: configuration of the BERT-like transformer, a dict with `model_type`.
        text_dropout: share dropped in training from the GRU's word embeddings, from the
            transformer's projected tokens, or within the `TextHead`.
        dimension: of the joint space.
        visual_pooling: a name `sparta.vse.aggregators.make_pooling` knows.
        visual_pooling_options: further arguments of that pooling.
        text_pooling: as `visual_pooling`.
        text_pooling_options: as `visual_pooling_options`.
        views: K, the embeddings of one image; the best one counts (MV-VSE equation 6).
        view_projections: "shared" pools one projected set K times, as MV-VSE's equation 4 and
            figure 3 have it; "separate" gives each view a projection of its own, as the authors'
            code does.
        temperature: that training divided cosines by, None if it did not or if that is unknown.

    Raises:
        InputError: if a field has a value there is not.
    """

    model_type = "vse"

    name: str = "vse"
    feature_dim: int = 2048
    feature_source: Json | None = None
    visual: Visual = "region"
    visual_width: int = 1024
    square_root: bool = False
    input_dropout: float = 0.0
    max_regions: int | None = None
    vision: Json | None = None
    vision_vectors: VisionVectors = "stored"
    text: Text = "bigru"
    words: Words = "patterns"
    word_dim: int = 300
    vocabulary_size: int = 0
    text_encoder: Json | None = None
    text_dropout: float = 0.0
    dimension: int = 1024
    visual_pooling: str = "mean"
    visual_pooling_options: Json | None = None
    text_pooling: str = "mean"
    text_pooling_options: Json | None = None
    views: int = 1
    view_projections: ViewProjections = "shared"
    temperature: float | None = None

    def __init__(self, **values: Any) -> None:
        for name in OPTIONS:
            setattr(self, name, values.pop(name, getattr(VseConfig, name)))
        for name, known in CHOICES.items():
            if (value := getattr(self, name)) not in get_args(known):
                raise InputError(f"{name}: {value!r} is not one of {', '.join(get_args(known))}")
        if self.views < 1:
            raise InputError(f"views: {self.views} is less than one")
        if (self.text in ("bert", "sentence")) != (self.text_encoder is not None):
            raise InputError(
                f"text: {self.text!r} with text_encoder: {self.text_encoder!r} do not go together"
            )
        self.visual_pooling_options = self.visual_pooling_options or {}
        self.text_pooling_options = self.text_pooling_options or {}
        super().__init__(**values)

    def get_text_config(
        self, decoder: bool | None = None, encoder: bool | None = None
    ) -> VseConfig:
        """This configuration: transformers would take `text_encoder`, a dict, for one."""
        return self


# What `VseConfig` takes, by name.
OPTIONS = tuple(get_annotations(VseConfig))
