"""Parts of a checkpoint of the transformers library: preprocessing, model, classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from transformers import (
    AutoImageProcessor,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
)

from sparta.errors import InputError, first_line
from sparta.features.extract.networks.timm_models import TimmVision, timm_processor

Task = Literal["a vision model", "an image classifier", "an object detector"]
TASKS: dict[Task, Any] = {
    "a vision model": AutoModel,
    "an image classifier": AutoModelForImageClassification,
    "an object detector": AutoModelForObjectDetection,
}


@dataclass(frozen=True)
class Normalisation:
    """A checkpoint's normalisation of pixels; mean and std are [3, 1, 1] float32."""

    scale: float
    mean: torch.Tensor
    std: torch.Tensor

    @classmethod
    def of(cls, processor: Any) -> Normalisation:
        """The normalisation of an image processor."""
        mean, std = [0.0] * 3, [1.0] * 3
        if processor.do_normalize:
            mean, std = processor.image_mean, processor.image_std
        return cls(
            scale=processor.rescale_factor if processor.do_rescale else 1.0,
            mean=torch.tensor(mean).reshape(3, 1, 1),
            std=torch.tensor(std).reshape(3, 1, 1),
        )

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """[B, 3, height, width] uint8 RGB to float32 of the same shape, on the same device."""
        mean, std = self.mean.to(pixels.device), self.std.to(pixels.device)
        return (pixels.float() * self.scale - mean) / std


@dataclass(frozen=True)
class Preprocessing(Normalisation):
    """Adds the side of the square that photos are resized to, and Pillow's filter for it."""

    side: int
    resample: int


def load_processor(name: str, option: str) -> Any:
    """A checkpoint's image processor, in its version for Pillow and NumPy.

    Args:
        name: hub name or folder.
        option: of the command line that gives it, for messages.

    Raises:
        InputError: if there is none, or it is of an unknown kind.
    """
    try:
        if found := timm_processor(name):
            return found
        return AutoImageProcessor.from_pretrained(name, backend="pil")
    except OSError as error:
        raise InputError(
            f"{option} {name}: neither a folder with a preprocessor_config.json nor a model "
            "on the hub; check the name, and the network if it is a hub name"
        ) from error
    except (ImportError, ValueError) as error:
        raise InputError(f"{name} is not a vision model: {first_line(error)}") from error


def load_preprocessing(name: str, image_size: int | None) -> Preprocessing:
    """Size, filter, mean and deviation as the checkpoint's image processor gives them.

    Raises:
        InputError: if there is none, it is of an unknown kind, or it names no size.
    """
    processor = load_processor(name, "--backbone")
    # The network's input is the crop, where the checkpoint crops.
    size = processor.crop_size if processor.do_center_crop else processor.size
    side = image_size or (size and (size.height or size.shortest_edge))
    if not side:
        raise InputError(f"{name} does not record the size of its photos; give --image-size")
    values = Normalisation.of(processor)
    return Preprocessing(
        scale=values.scale,
        mean=values.mean,
        std=values.std,
        side=int(side),
        resample=int(processor.resample),
    )


def load_model(name: str, task: Task = "a vision model") -> Any:
    """Load a checkpoint none of whose used weights is missing.

    Raises:
        InputError: if the checkpoint is of an unknown kind, needs a library that is not
            installed, or weights are missing; or if it is a classifier of timm.
    """
    try:
        model, info = TASKS[task].from_pretrained(
            name, output_loading_info=True, dtype=torch.float32
        )
    except ImportError as error:
        raise InputError(
            f"{name} cannot be loaded: {first_line(error)}; take a checkpoint whose backbone is "
            "of the transformers library"
        ) from error
    except ValueError as error:
        raise InputError(f"{name} is not {task}: {first_line(error)}") from error
    # A pooler is often left out of a checkpoint, and its output is not used here.
    missing = sorted(key for key in info["missing_keys"] if "pooler" not in key)
    missing += sorted(str(key) for key in info["mismatched_keys"])
    if missing:
        unlabelled = task == "an image classifier"
        hint = "; it has no trained classifier, leave out --labels" if unlabelled else ""
        raise InputError(f"{name} lacks the weights {', '.join(missing[:5])}{hint}")
    if model.config.model_type != "timm_wrapper":
        return model
    if task != "a vision model":
        raise InputError(f"{name}: networks of timm name no classes here; leave out --labels")
    return TimmVision(model)


def class_names(name: str, config: Any) -> list[str]:
    """The first synonym of every class of a classifier.

    Raises:
        InputError: if the classes have only numbers.
    """
    names = [config.id2label[i] for i in range(len(config.id2label))]
    if names == [f"LABEL_{i}" for i in range(len(names))]:
        raise InputError(f"{name} does not name its classes (id2label); leave out --labels")
    return [synonyms.split(",")[0].strip() for synonyms in names]
