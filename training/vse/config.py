"""Settings of a training run of a dense VSE model."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sparta.json_values import Json
from training.run_config import DataConfig, RunConfig, Section


class VseModelConfig(Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint; None for a BiGRU over words.
        layers: use only this many of the checkpoint's first layers.
        min_count: without `init`, how often a word must occur in the training captions to enter
            the vocabulary.
        options: fields of `VseConfig`, such as visual, visual_pooling or views; `vision` is the hub
            name or folder of a vision network that becomes part of the model, which then reads
            the photos themselves.
    """

    init: str | None = None
    layers: int | None = Field(default=None, ge=1)
    min_count: int = Field(default=4, ge=1)
    options: Json = Field(default={})


class VseObjectiveConfig(Section):
    """The objective, which training minimises.

    Attributes:
        kind: the hinge loss (GPO equation 1), ADOPT (VSE+2AD section 3.3), or, for several views,
            the multi-view form of the hinge loss (MV-VSE section 3.3).
        margin: of the hinge loss.
        warm_up_epochs: first epochs, in which the hinge loss sums over all negatives; later only
            the hardest counts.
        temperature: of ADOPT.
        variant: ADOPT as printed in the paper or as computed by its published code.
        views: which multi-view loss.
        weight: λ of the joint loss (MV-VSE equation 15).
    """

    kind: Literal["triplet", "adopt", "multi-view-triplet"] = "triplet"
    margin: float = Field(default=0.2, ge=0)
    warm_up_epochs: int = Field(default=1, ge=0)
    temperature: float = Field(default=0.05, gt=0)
    variant: Literal["paper", "code"] = "paper"
    views: Literal["average", "max", "rough", "upper", "joint", "code"] = "joint"
    weight: float = Field(default=0.7, ge=0, le=1)


class VseAugmentationConfig(Section):
    """Augmentation of training examples (GPO section 3.3, "Size Augmentation").

    Attributes:
        regions: which visual vectors are dropped, of stored features or of what a vision network
            inside the model gives: "regions" and "grid-flat" drop each with probability 0.2, as in
            the paper, "grid" at the varying rate of the published code for grid cells.
        photos: for a model with a vision network: "crop" takes 60 to 100 % of both sides of a
            photo, mirrored half of the time (GPO's published code); "none" the whole photo.
        words: probability that a word is masked, replaced or deleted.
    """

    regions: Literal["none", "regions", "grid", "grid-flat"] = "none"
    photos: Literal["none", "crop"] = "none"
    words: float = Field(default=0.0, ge=0, lt=1)


class VseTrainConfig(RunConfig):
    """A run of a dense model; an epoch contains every pair of photo and caption.

    The defaults are those of VSE∞ (GPO).

    Attributes:
        weight_decay: of AdamW.
        text_rate: factor on the learning rate of a pretrained text encoder; 0 freezes it.
        vision_rate: factor on the learning rate of a vision network inside the model.
        vision_frozen_epochs: first epochs, in which the vision network is frozen.
        vision_warm_up: whether the loss rises from 0 to its full value over the first epoch in
            which the vision network learns, as in the published code.
        schedule: "step" divides the learning rate by ten at each of `milestones` (epochs); the
            others are as for VisualSparta, with a share `warmup` of the steps for the rise.
    """

    family: Literal["vse"] = "vse"
    data: DataConfig = DataConfig()
    model: VseModelConfig = VseModelConfig()
    objective: VseObjectiveConfig = VseObjectiveConfig()
    augmentation: VseAugmentationConfig = VseAugmentationConfig()
    batch_size: int = Field(default=128, ge=2)
    epochs: int = Field(default=25, ge=1)
    learning_rate: float = Field(default=5e-4, gt=0)
    gradient_clip: float = Field(default=2.0, ge=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    text_rate: float = Field(default=0.1, ge=0)
    vision_rate: float = Field(default=0.01, ge=0)
    vision_frozen_epochs: int = Field(default=1, ge=0)
    vision_warm_up: bool = True
    schedule: Literal["step", "constant", "linear", "cosine"] = "step"
    milestones: list[int] = Field(default=[15])
    warmup: float = Field(default=0.0, ge=0, lt=1)

    @property
    def has_vision_network(self) -> bool:
        """Whether the model contains a vision network and so reads the photos themselves."""
        return self.model.options.get("vision") is not None
