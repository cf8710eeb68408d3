"""A training run of a dense VSE model as data."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from training.run_config import PhotosConfig, RunConfig, Section


class VseModelConfig(Section):
    """The network at the start.

    Attributes:
        init: hub name or folder of a BERT-like checkpoint; None for a BiGRU over words.
        layers: keep only the checkpoint's first layers.
        min_count: without `init`, how often the training captions must hold a word of the
            vocabulary.
        options: fields of `VseConfig`, such as visual, visual_pooling or views; `vision` is the hub
            name or folder of a network to take into the model, which then sees photos itself.
    """

    init: str | None = None
    layers: int | None = Field(default=None, ge=1)
    min_count: int = Field(default=4, ge=1)
    options: dict[str, Any] = Field(default={})


class ObjectiveConfig(Section):
    """What training minimises.

    Attributes:
        kind: the hinge loss (GPO equation 1), ADOPT's (ADPOOL section 3.3), or, for several
            views, the multi-view form of the hinge loss or of the normalised softmax (MV-VSE
            section 3.3).
        margin: of the hinge loss.
        warm_up_epochs: in which the hinge loss sums over all negatives; then the hardest counts.
        temperature: of ADOPT and the softmax.
        variant: ADOPT as printed or as its authors' code computes it.
        views: which multi-view loss.
        weight: λ of the joint loss (MV-VSE equation 15).
    """

    kind: Literal["triplet", "adopt", "multi-view-triplet", "multi-view-softmax"] = "triplet"
    margin: float = Field(default=0.2, ge=0)
    warm_up_epochs: int = Field(default=1, ge=0)
    temperature: float = Field(default=0.05, gt=0)
    variant: Literal["paper", "code"] = "paper"
    views: Literal["average", "max", "rough", "upper", "joint", "code"] = "joint"
    weight: float = Field(default=0.7, ge=0, le=1)


class AugmentationConfig(Section):
    """What training does to its examples (GPO section 3.3, "Size Augmentation").

    Attributes:
        regions: which vectors of an image are left out: "regions" each with the chance 0.2,
            "grid" at the published code's varying rate, "grid-flat" at the paper's 20 %.
        photos: what a model with a vision network sees of a photo: all, or with "crop" 60 to 100 %
            of its sides, mirrored half of the time (GPO's published code).
        words: chance that a word is masked, replaced or deleted.
    """

    regions: Literal["none", "regions", "grid", "grid-flat"] = "none"
    photos: Literal["none", "crop"] = "none"
    words: float = Field(default=0.0, ge=0, lt=1)


class VseTrainConfig(RunConfig):
    """One run; an epoch goes over every pair of photo and caption. Defaults are VSE∞'s.

    Attributes:
        weight_decay: of AdamW.
        text_rate: a pretrained text encoder learns at the learning rate times this; at 0 it stays
            as it is.
        vision_rate: ... and a vision network inside the model.
        vision_frozen_epochs: epochs before the vision network learns at all.
        schedule: "step" divides the rate by ten at each of `milestones` (epochs); the others are
            VisualSparta's, with the share `warmup` of the steps to rise in.
    """

    family: Literal["vse"] = "vse"
    data: PhotosConfig = PhotosConfig()
    model: VseModelConfig = VseModelConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    augmentation: AugmentationConfig = AugmentationConfig()
    batch_size: int = Field(default=128, ge=2)
    epochs: int = Field(default=25, ge=1)
    learning_rate: float = Field(default=5e-4, gt=0)
    gradient_clip: float = Field(default=2.0, ge=0)
    weight_decay: float = Field(default=1e-4, ge=0)
    text_rate: float = Field(default=0.1, ge=0)
    vision_rate: float = Field(default=0.01, ge=0)
    vision_frozen_epochs: int = Field(default=1, ge=0)
    schedule: Literal["step", "constant", "linear", "cosine"] = "step"
    milestones: list[int] = Field(default=[15])
    warmup: float = Field(default=0.0, ge=0, lt=1)

    @property
    def sees_photos(self) -> bool:
        """Whether the model has a vision network of its own."""
        return self.model.options.get("vision") is not None
