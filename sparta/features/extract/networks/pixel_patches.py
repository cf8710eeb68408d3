"""Raw pixel patches: features without a pretrained network."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.features.record import FeatureSource

PATCH = 16
DEFAULT_SIZE = 112


class PixelPatches:
    """A photo as squares of 16 × 16 pixels, and the whole photo shrunk to 16 × 16.

    Values are scaled from 0..255 to -1..1.

    Args:
        image_size: side in pixels of the square the photo is stretched to, a multiple of 16.

    Raises:
        InputError: if it is none.
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
        """[B, side, side, 3] photos to [B, n + 1, 768] patches, the whole photo last; no labels."""
        batch, cells = len(pixels), self.grid[0]
        scaled = pixels.astype(np.float32) / 127.5 - 1
        patches = scaled.reshape(batch, cells, PATCH, cells, PATCH, 3).swapaxes(2, 3)
        whole = scaled.reshape(batch, PATCH, cells, PATCH, cells, 3).mean(axis=(2, 4))
        rows = np.concatenate(
            [patches.reshape(batch, cells * cells, -1), whole.reshape(batch, 1, -1)], axis=1
        )
        return rows.astype(np.float16), [""] * batch
