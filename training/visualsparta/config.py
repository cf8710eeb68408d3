"""A training run of VisualSparta as data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from training.run_config import PhotosConfig, RunConfig, Section


class DataConfig(PhotosConfig):
    """Which photos and captions, and how they are drawn.

    Attributes:
        captions_per_photo: captions drawn per photo and step; they share its forward pass.
        word_dropout: chance that a caption's term is left out.
        region_dropout: chance that a region is left out.
    """

    captions_per_photo: int = Field(default=1, ge=1)
    word_dropout: float = Field(default=0.0, ge=0, lt=1)
    region_dropout: float = Field(default=0.0, ge=0, lt=1)


class ModelConfig(Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint, or oscar:FOLDER of one of Oscar's; None
            for random weights.
        layers: keep only the checkpoint's first layers.
        encoder: without `init`, fields of a `BertConfig`; its vocabulary is then learnt from the
            training captions.
        vocabulary_size: without `init`, at most so many word pieces.
        options: fields of `VisualSpartaConfig`, such as use_labels or max_regions.
        query_embedding: "trained" with its own learning rate, or "frozen" at the checkpoint's
            directions with one trained importance per term.
    """

    init: str | None = None
    layers: int | None = Field(default=None, ge=1)
    encoder: dict[str, Any] = Field(default={})
    vocabulary_size: int = 1000
    options: dict[str, Any] = Field(default={})
    query_embedding: Literal["trained", "frozen"] = "trained"


class TrainConfig(RunConfig):
    """One run of VisualSparta. Defaults are the paper's (section 4.3).

    Attributes:
        query_learning_rate: replaces the learning rate for the query embedding.
        projection_learning_rate: ... for the region projection.
        warmup: share of the steps in which the rate rises; afterwards it falls as `schedule` says.
        include_positive: whether equation 13's denominator holds the positive.
        temperature: scores are divided by it in the objective (1 in the paper).
        flops: weight of the sparsity regulariser.
    """

    family: Literal["visual-sparta"] = "visual-sparta"
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    batch_size: int = Field(default=160, ge=2)
    epochs: int = Field(default=20, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    query_learning_rate: float | None = None
    projection_learning_rate: float | None = None
    warmup: float = Field(default=0.1, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    gradient_clip: float = Field(default=1.0, ge=0)
    include_positive: bool = True
    temperature: float = Field(default=1.0, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    flops: float = Field(default=0.0, ge=0)
