"""Regions of a photo on a grid, and the whole photo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.networks.encoder import Encoder
from sparta.features.extract.photos import Decoder, Photo
from sparta.features.record import ImageFeatures


class GridRegions:
    """The cells of an encoder's grid, row by row, and the whole photo last.

    Attributes:
        source: what makes the features.
        batch_size: photos per pass.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self.source = encoder.source
        self.batch_size = encoder.batch_size

    def decoder(self, folder: Path, augmentation: Augmentation) -> Decoder:
        """What reads the photos of a folder."""
        return Decoder(folder, self.source.image_size, self._encoder.resample, augmentation)

    def __call__(self, photos: list[Photo]) -> list[ImageFeatures]:
        """The regions of photos, as many for each."""
        features, labels = self._encoder.encode(np.stack([photo.pixels for photo in photos]))
        boxes = grid_boxes(*self._encoder.grid)
        n = len(boxes)
        return [
            ImageFeatures(
                photo.image_id,
                rows,
                boxes,
                ("",) * (n - 1) + (label,),
                ("",) * n,
                photo.width,
                photo.height,
            )
            for photo, rows, label in zip(photos, features, labels, strict=True)
        ]


def grid_boxes(rows: int, columns: int) -> NDArray[np.float32]:
    """[rows * columns + 1, 4] boxes of a grid's cells, row by row, and of the whole photo."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    corners = [x / columns, y / rows, (x + 1) / columns, (y + 1) / rows]
    cells = np.stack(corners, axis=1).astype(np.float32)
    return np.concatenate([cells, np.array([[0, 0, 1, 1]], np.float32)])
