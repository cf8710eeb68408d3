"""What every training run has, whatever model it trains; each key is checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """Unknown keys are errors: a misspelt setting must not train something else in silence."""

    model_config = ConfigDict(extra="forbid")


class PhotosConfig(Section):
    """Which photos, which captions.

    Attributes:
        features: feature stores of the same photos; each further one is another view (a mirrored
            or cropped copy), and every epoch draws one view per photo.
        photos: instead of features, a folder of photos to extract them from, with `backbone`
            (hub name, folder or "pixels") in so many `views`; kept in the run's folder. A dense
            model with a vision network of its own takes the photos as they are.
        captions: `captions.jsonl`, or a file or folder of any other format that
            `sparta.captions.read` reads.
        image_key: whether COCO's and Karpathy's captions name photos as the features do, by their
            "file" or by "cocoid".
        split: photos to train on.
        validation_split: photos to choose by, if the file has a split for it.
        validation_photos: otherwise, how many photos of `split` to hold out (0: none, and the
            last weights are kept).
    """

    features: list[Path] = Field(default=[], max_length=64)
    photos: Path | None = None
    backbone: str | None = None
    views: int = Field(default=1, ge=1)
    captions: Path | None = None
    image_key: Literal["file", "cocoid"] = "file"
    split: str = "train"
    validation_split: str | None = None
    validation_photos: int = Field(default=0, ge=0)


class RunConfig(Section):
    """How a run is carried out.

    Attributes:
        batch_size: photos per step, over all GPUs.
        learning_rate: of the optimiser, where nothing replaces it.
        gradient_clip: largest norm of a step's gradient, 0 for any.
        precision: as Lightning names it; "auto" takes bfloat16 on a GPU and float32 elsewhere.
        average: decay of the exponential moving average of the weights, 0 for none.
        checkpoint_epochs: epochs between the checkpoints a killed run resumes from.
        patience: stop after so many epochs without a better validation recall, 0 for never.
    """

    batch_size: int = Field(ge=2)
    epochs: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    gradient_clip: float = Field(ge=0)
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    accelerator: str = "auto"
    devices: int | Literal["auto"] = "auto"
    workers: int = Field(default=2, ge=0)
    seed: int = 0
    average: float = Field(default=0.0, ge=0, lt=1)
    checkpoint_epochs: int = Field(default=1, ge=1)
    patience: int = Field(default=0, ge=0)
