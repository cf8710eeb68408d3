"""What turns photos into regions: a detector, or the grid of a backbone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.extract.photos import Augmentation, Decoder, Photo
from sparta.features.record import JOINT, DetectorSettings, FeatureSource, ImageFeatures
from sparta.networks.encoder import Encoder
from sparta.networks.load import load_encoder
from sparta.progress import Progress, no_progress

if TYPE_CHECKING:
    from sparta.extract.detector import DetectorRegions

# What turns the photos that its decoder has read into regions, some for each.
Extractor: TypeAlias = "GridRegions | DetectorRegions"


def load_extractor(
    backbone: str | None,
    detection: DetectorSettings | None,
    image_size: int | None = None,
    labels: int = 0,
    device: str = "auto",
    grid: int | None = None,
    bfloat16: bool = False,
    progress: Progress = no_progress,
    joint: bool = False,
) -> Extractor:
    """A detector's regions, or the cells of a backbone's grid; see `load_encoder`."""
    if backbone is None and (image_size or labels):
        raise InputError("--image-size and --labels are for a --backbone: name it too")
    encoder: Encoder | None = None
    if backbone:
        encoder = load_encoder(backbone, image_size, labels, device, progress, bfloat16, joint)
    if detection is not None:
        if grid:
            raise InputError("--grid is for cells of a --backbone: leave it out with --detector")
        from sparta.extract.detector import DetectorRegions

        return DetectorRegions(detection, encoder, device)
    if encoder is None:
        raise InputError("--backbone: name what turns the photos into features (or --detector)")
    if grid and encoder.grid != (grid, grid):
        encoder = PooledGrid(encoder, grid)
    return GridRegions(encoder)


def load_extractor_of(
    source: FeatureSource, device: str = "auto", bfloat16: bool = False
) -> Extractor:
    """What made the features of a source, loaded again, perhaps in another precision."""
    detection = DetectorSettings.of(source)
    if source.kind == "region" and detection is None:
        raise InputError(
            f"regions of {source.backbone} come from other software and cannot be made from photos"
        )
    extractor = load_extractor(
        source.backbone or None,
        detection,
        source.image_size or None,
        source.label_count,
        device,
        source.extra.get("grid"),
        bfloat16,
        joint=source.extra.get("space") == JOINT,
    )
    if differences := source.differences(extractor.source):
        raise InputError(
            f"the features of these photos would differ from the model's (the model's against "
            f"those found): {'; '.join(differences)}"
        )
    return extractor


class GridRegions:
    """The cells of an encoder's grid, row by row, and the whole photo last."""

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


class PooledGrid(Encoder):
    """An encoder whose cells are averaged to a smaller square grid.

    Each of the new cells is the mean of all cells that it touches, so neighbours share cells where
    the sides do not divide. The whole photo remains the encoder's own.
    """

    def __init__(self, encoder: Encoder, cells: int) -> None:
        rows, columns = encoder.grid
        if cells > min(rows, columns):
            raise InputError(
                f"--grid {cells}: {encoder.source.backbone} gives {rows} x {columns} cells at "
                f"{encoder.source.image_size} pixels; take no more, or a larger --image-size"
            )
        self._encoder = encoder
        self.grid = (cells, cells)
        self.resample, self.batch_size = encoder.resample, encoder.batch_size
        self.source = replace(encoder.source, extra=encoder.source.extra | {"grid": cells})

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """See `Encoder.encode`."""
        features, labels = self._encoder.encode(pixels)
        shape = len(features), *self._encoder.grid, features.shape[2]
        cells = features[:, :-1].astype(np.float32).reshape(shape)
        # A product of matrices would be slower: its threads wait busily for the network's cores.
        for axis, fewer in enumerate(self.grid, start=1):
            cells = _means(cells, axis, fewer)
        rows = cells.astype(np.float16).reshape(len(features), -1, features.shape[2])
        return np.concatenate([rows, features[:, -1:]], axis=1), labels


def _means(values: NDArray[np.float32], axis: int, fewer: int) -> NDArray[np.float32]:
    """Values averaged to fewer along an axis; each mean is of all values that it touches."""
    count = values.shape[axis]
    parts = [range(i * count // fewer, -(-(i + 1) * count // fewer)) for i in range(fewer)]
    return np.stack([values.take(part, axis).mean(axis) for part in parts], axis)
