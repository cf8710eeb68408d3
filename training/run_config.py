"""Settings that every training run has, whatever model it trains; unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Section(BaseModel):
    """A section of the settings; unknown keys are errors, so that no misspelt one is ignored."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class DataConfig(Section):
    """The photos and captions to train on.

    Attributes:
        features: feature stores of the same photos. Further ones hold test-time augmentations of
            them (mirrored or cropped copies); every epoch draws one store per photo.
        photos: instead of features, a folder of photos to extract them from, with `backbone`
            (hub name, folder or "pixels"), its cells averaged to `grid` on a side (None: not), one
            store for each of so many `augmentations` (the first is the plain photo). The stores are
            written to `features/` beside the run's folder, and reused. A dense model with a vision
            network reads the photos themselves.
        image_size: side in pixels of the square that either network sees a photo in, which the
            model records (GPO section 5.1: 512); None for the network's own size.
        captions: `captions.jsonl`, or a file or folder of any other format that
            `sparta.captions.read` reads.
        split: photos to train on.
        validation_split: the split to measure recall on after each epoch, and to choose the best
            weights by.
        validation_photos: without `validation_split`, how many photos of `split` to hold out for
            that; 0 for none: the last weights are saved. None for the split `val` or `dev` if the
            file of captions has it, else for a tenth of the photos, at most 1,000.
    """

    features: list[Path] = Field(default=[], max_length=64)
    photos: Path | None = None
    backbone: str | None = None
    grid: int | None = Field(default=None, ge=1)
    image_size: int | None = Field(default=None, ge=1)
    augmentations: int = Field(default=1, ge=1)
    captions: Path | None = None
    split: str = "train"
    validation_split: str | None = None
    validation_photos: int | None = Field(default=None, ge=0)


class RunConfig(Section):
    """How a run is carried out.

    Attributes:
        batch_size: examples per step, over all GPUs.
        learning_rate: of all parameters without a rate of their own.
        gradient_clip: largest norm of a step's gradient, 0 for no limit.
        precision: as Lightning spells it; "auto" is bfloat16 on a GPU and float32 elsewhere.
        accelerator: "auto" takes a GPU if there is one.
        devices: GPUs, or processes on a CPU; "auto" takes all GPUs.
        workers: processes of each device that load data.
        seed: of every random draw.
        average: decay of the exponential moving average of the weights, 0 for none.
        checkpoint_epochs: epochs between the checkpoints from which a run can be resumed.
        patience: stop after this many epochs without a better validation recall, 0 for never.
    """

    batch_size: int = Field(ge=2)
    epochs: int = Field(ge=1)
    learning_rate: float = Field(gt=0)
    gradient_clip: float = Field(ge=0)
    precision: Literal["auto", "32-true", "bf16-mixed", "16-mixed"] = "auto"
    accelerator: Literal["auto", "cpu", "cuda", "gpu", "mps"] = "auto"
    devices: int | Literal["auto"] = "auto"
    workers: int = Field(default=2, ge=0)
    seed: int = Field(default=0, ge=0, lt=2**32)
    average: float = Field(default=0.0, ge=0, lt=1)
    checkpoint_epochs: int = Field(default=1, ge=1)
    patience: int = Field(default=0, ge=0)

    @field_validator("devices", mode="plain")
    @classmethod
    def _devices_are_some(cls, value: Any) -> Any:
        if value == "auto" or (type(value) is int and value >= 1):
            return value
        raise ValueError("expected auto, or a number of 1 and more")

    @property
    def planned_epochs(self) -> int:
        """How many epochs the run is to train."""
        return self.epochs
