"""Parts of a checkpoint of transformers or timm: preprocessing, model, classes.

A checkpoint without the part, or with one of an unknown kind, raises InputError.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isqrt
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import torch
from PIL import Image
from torch import Tensor, nn
from transformers import (
    AutoImageProcessor,
    AutoModel,
    AutoModelForImageClassification,
    AutoModelForObjectDetection,
    BlipVisionModel,
)

from sparta.errors import InputError, first_line
from sparta.extras import require
from sparta.json_values import Json, JsonMapping
from sparta.model_id import DAMAGED_WEIGHTS, find_file, model_folder, read_model_config

Task = Literal["a vision model", "an image classifier", "an object detector"]
TASKS: dict[Task, Any] = {
    "a vision model": AutoModel,
    "an image classifier": AutoModelForImageClassification,
    "an object detector": AutoModelForObjectDetection,
}
BLIP = ("blip", "blip_vision_model")
FILE = "preprocessor_config.json"
# Processors that transformers has for torchvision alone, and that do nothing but resize,
# rescale and normalise.
PLAIN = ("DINOv3ViTImageProcessorFast", "DINOv3ViTImageProcessor")


@dataclass(frozen=True)
class Normalisation:
    """A checkpoint's normalisation of pixels."""

    scale: float  # factor of the pixels
    mean: torch.Tensor  # [3, 1, 1] float32, subtracted from the scaled pixels
    std: torch.Tensor  # [3, 1, 1] float32, their divisor
    blue_first: bool = False  # whether the network reads blue, green, red

    @classmethod
    def of(cls, processor: Any) -> Normalisation:
        """The normalisation of an image processor.

        EfficientNet's may subtract 1 first, and divides twice by a deviation, which is the root of
        the usual one. MobileViT's exchanges red and blue.
        """
        mean, std = torch.zeros(3), torch.ones(3)
        if processor.do_normalize:
            mean, std = torch.tensor(processor.image_mean), torch.tensor(processor.image_std)
        if processor.do_rescale and getattr(processor, "rescale_offset", False):
            mean = mean + 1
        if getattr(processor, "include_top", False):
            std = std * torch.tensor(processor.image_std)
        return cls(
            scale=processor.rescale_factor if processor.do_rescale else 1.0,
            mean=mean.reshape(3, 1, 1),
            std=std.reshape(3, 1, 1),
            blue_first=bool(getattr(processor, "do_flip_channel_order", False)),
        )

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """[B, 3, height, width] uint8 RGB to float32 of the same shape, on the same device."""
        mean, std = self.mean.to(pixels.device), self.std.to(pixels.device)
        values = (pixels.float() * self.scale - mean) / std
        return values.flip(1) if self.blue_first else values


@dataclass(frozen=True, kw_only=True)
class Preprocessing(Normalisation):
    """Adds the side of the square that photos are resized to, and Pillow's filter for it."""

    side: int
    resample: int


def load_processor(name: str, option: str) -> Any:
    """A checkpoint's image processor, in its version for Pillow and NumPy."""
    kind = read_model_config(name, (), "vision model", option).get("model_type")
    if found := timm_processor(name):
        return found
    if not any(find_file(name, file) for file in (FILE, "processor_config.json")):
        raise InputError(f"{option} {name} is of a {kind} and has no {FILE}: it is no vision model")
    try:
        return AutoImageProcessor.from_pretrained(model_folder(name, weights=False), backend="pil")
    except (OSError, ImportError, ValueError) as error:
        raise InputError(f"{name} is not a vision model: {first_line(error)}") from error


def load_preprocessing(name: str, image_size: int | None) -> Preprocessing:
    """Size, filter, mean and deviation as the checkpoint's image processor gives them."""
    try:
        processor = load_processor(name, "--backbone")
    except InputError:
        processor = stated_processor(read_settings(name, FILE))
        if processor is None:
            raise
    side = image_size or _side(processor)
    if not side:
        raise InputError(f"{name} does not record the size of its photos; give --image-size")
    normalisation = vars(Normalisation.of(processor))
    return Preprocessing(**normalisation, side=int(side), resample=int(processor.resample))


def _side(processor: Any) -> int | None:
    """Side of the square a processor makes of a photo, None where it states none."""
    if patches := getattr(processor, "max_num_patches", None):
        return isqrt(patches) * int(processor.patch_size)
    # The network's input is the crop, where the checkpoint crops.
    size = processor.crop_size if processor.do_center_crop else processor.size
    side: int | None = size and (size.height or size.shortest_edge)
    return side


def load_model(name: str, task: Task = "a vision model") -> Any:
    """Load a checkpoint none of whose used weights is missing.

    Raises InputError if the checkpoint is of an unknown kind, needs a library that is not
    installed, or weights are missing; or if it is a classifier of timm.
    """
    kind, folder = TASKS[task], model_folder(name)
    options: dict[str, Any] = {}
    if task == "a vision model" and read_settings(name, "config.json").get("model_type") in BLIP:
        # The library's automatic class has no part of BLIP without text.
        kind, options = BlipVisionModel, {"key_mapping": {r"^vision_model\.": ""}}
    try:
        model, info = kind.from_pretrained(
            folder, output_loading_info=True, dtype=torch.float32, **options
        )
    except ImportError as error:
        raise InputError(
            f"{name} cannot be loaded: {first_line(error)}; take a checkpoint whose backbone is "
            "of the transformers library"
        ) from error
    except (OSError, ValueError, *DAMAGED_WEIGHTS) as error:
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


def read_settings(name: str, file: str) -> Json:
    """A JSON file of a checkpoint; nothing where it is absent or damaged, which loading reports."""
    try:
        path = find_file(name, file)
        found = json.loads(path.read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def class_names(name: str, config: Any) -> list[str]:
    """The first synonym of every class of a classifier."""
    names = [config.id2label[i] for i in range(len(config.id2label))]
    if names == [f"LABEL_{i}" for i in range(len(names))]:
        raise InputError(f"{name} does not name its classes (id2label); leave out --labels")
    return [synonyms.split(",")[0].strip() for synonyms in names]


class Square(NamedTuple):
    """The size of a network's photos in pixels."""

    height: int


@dataclass(frozen=True)
class StatedProcessor:
    """What a checkpoint's file states, under the names of transformers' own processors.

    Those of some checkpoints, and of all of timm, need torchvision.
    """

    image_mean: list[float]
    image_std: list[float]
    size: Square
    resample: int
    rescale_factor: float = 1 / 255
    do_normalize = do_rescale = True
    do_center_crop = False


def stated_processor(stated: JsonMapping) -> StatedProcessor | None:
    """The preprocessing of a checkpoint with one of the plain processors, None for any other."""
    if stated.get("image_processor_type") not in PLAIN:
        return None
    try:
        return StatedProcessor(
            stated["image_mean"],
            stated["image_std"],
            Square(int(stated["size"]["height"])),
            int(stated["resample"]),
            float(stated["rescale_factor"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{FILE} of the backbone has no usable {error}") from error


# ---- timm ----------------------------------------------------------------------------------------


def timm_processor(name: str) -> StatedProcessor | None:
    """The preprocessing of a checkpoint of timm, None for any other."""
    path = find_file(name, "config.json")
    published = json.loads(path.read_text(encoding="utf-8")).get("pretrained_cfg") if path else None
    if published is None:
        return None
    try:
        require("timm")
    except RuntimeError as error:  # of torchvision, which timm imports
        raise InputError(
            f"timm cannot be imported ({first_line(error)}): install the torchvision that was "
            f"built for torch {torch.__version__}, from the same package index"
        ) from error
    try:
        return StatedProcessor(
            published["mean"],
            published["std"],
            Square(published["input_size"][-1]),
            int(Image.Resampling[published["interpolation"].upper()]),
        )
    except KeyError as error:
        raise InputError(f"{path}: pretrained_cfg has no usable {error}") from error


class TimmVision(nn.Module):
    """A network of timm as transformers wraps it, its output in one of two layouts."""

    main_input_name = "pixel_values"

    def __init__(self, wrapped: Any) -> None:
        super().__init__()
        self.wrapped = wrapped
        self.config = wrapped.config

    def forward(self, pixel_values: Tensor) -> SimpleNamespace:
        """The last hidden state: [B, d, rows, columns], or patches [B, rows * columns, d]."""
        try:
            hidden = self.wrapped(pixel_values=pixel_values).last_hidden_state
        except AssertionError as error:
            raise ValueError(str(error)) from error
        network = self.wrapped.timm_model
        if hidden.ndim == 4:
            last = getattr(network, "output_fmt", "NCHW") == "NHWC"
            return SimpleNamespace(last_hidden_state=hidden.permute(0, 3, 1, 2) if last else hidden)
        patches = hidden[:, getattr(network, "num_prefix_tokens", 0) :]
        if isqrt(patches.shape[1]) ** 2 != patches.shape[1]:
            raise ValueError(f"{patches.shape[1]} tokens do not form a square")
        return SimpleNamespace(last_hidden_state=patches)
