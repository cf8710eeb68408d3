"""Settings of a VisualSparta training run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sparta.json_values import Json
from training.run_config import DataConfig, RunConfig, Section


class VisualSpartaDataConfig(DataConfig):
    """Photos and captions, and how training examples are drawn from them.

    Attributes:
        epoch: what an epoch visits once: "photos", each with captions drawn for it, or "pairs" of a
            photo and one of its captions.
        negatives: which photos share a batch, and so are each other's negatives: "random" ones, or
            those that share "labels" of the features (section 3.2, "nearby labels").
        captions_per_photo: captions drawn per photo and step; they share the photo's forward pass.
        word_dropout: probability that a term of a caption is dropped.
        region_dropout: probability that a region is dropped.
    """

    epoch: Literal["photos", "pairs"] = "photos"
    negatives: Literal["random", "labels"] = "random"
    captions_per_photo: int = Field(default=1, ge=1)
    word_dropout: float = Field(default=0.0, ge=0, lt=1)
    region_dropout: float = Field(default=0.0, ge=0, lt=1)


class VisualSpartaModelConfig(Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint, or oscar:FOLDER for a checkpoint of
            Oscar; None for random weights.
        layers: use only this many of the checkpoint's first layers.
        encoder: without `init`, fields of a `BertConfig`; the vocabulary is then learnt from the
            training captions.
        vocabulary_size: without `init`, the largest number of word pieces.
        options: fields of `VisualSpartaConfig`, such as use_labels or max_regions.
        query_embedding: "trained" with its own learning rate, or "frozen" at the checkpoint's
            directions with one trained importance per term.
    """

    init: str | None = None
    layers: int | None = Field(default=None, ge=1)
    encoder: Json = Field(default={})
    vocabulary_size: int = Field(default=1000, ge=1)
    options: Json = Field(default={})
    query_embedding: Literal["trained", "frozen"] = "trained"


class VisualSpartaTrainConfig(RunConfig):
    """A VisualSparta run; the preset `visualsparta` has the paper's settings (section 4.3).

    Attributes:
        query_learning_rate: of the query embedding, None for `learning_rate`.
        projection_learning_rate: of the region projection, None for `learning_rate`.
        warmup: share of the steps in which the learning rate rises.
        schedule: how the learning rate decays after the warm-up.
        include_positive: whether the denominator of equation 13 includes the positive; as printed
            it does not.
        temperature: scores are divided by it in the objective (1 in the paper).
        label_smoothing: share of the target spread evenly over the photos of the batch.
        flops: weight of the sparsity regulariser.
    """

    family: Literal["visual-sparta"] = "visual-sparta"
    data: VisualSpartaDataConfig = VisualSpartaDataConfig()
    model: VisualSpartaModelConfig = VisualSpartaModelConfig()
    batch_size: int = Field(default=160, ge=2)
    epochs: int = Field(default=20, ge=1)
    learning_rate: float = Field(default=5e-5, gt=0)
    query_learning_rate: float | None = Field(default=None, gt=0)
    projection_learning_rate: float | None = Field(default=None, gt=0)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    schedule: Literal["constant", "linear", "cosine"] = "linear"
    gradient_clip: float = Field(default=1.0, ge=0)
    include_positive: bool = True
    temperature: float = Field(default=1.0, gt=0)
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    flops: float = Field(default=0.0, ge=0)

    @model_validator(mode="after")
    def _stem_is_not_averaged(self) -> VisualSpartaTrainConfig:
        # A stem's running means and deviations are those of the current weights: with averaged
        # weights, they gave a fifth of the recall.
        if self.average and self.model.options.get("stem"):
            raise ValueError("model.options.stem needs average: 0")
        return self

    @model_validator(mode="after")
    def _pairs_have_one_caption(self) -> VisualSpartaTrainConfig:
        if self.data.epoch == "pairs" and self.data.captions_per_photo > 1:
            raise ValueError(
                "data.epoch: pairs needs data.captions_per_photo: 1; use data.epoch: photos"
            )
        return self
