"""A backbone's grid averaged to fewer cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.extract.networks.encoder import Encoder


class PooledGrid:
    """An encoder whose cells are averaged to a smaller square grid.

    Each of the new cells is the mean of all cells that it touches, so neighbours share cells where
    the sides do not divide. The whole photo remains the encoder's own.

    Args:
        encoder: of the larger grid.
        cells: on a side of the smaller one.

    Raises:
        InputError: if the encoder's grid has fewer cells on a side.
    """

    def __init__(self, encoder: Encoder, cells: int) -> None:
        rows, columns = encoder.grid
        if cells > min(rows, columns):
            raise InputError(
                f"--grid {cells}: {encoder.source.backbone} gives {rows} x {columns} cells at "
                f"{encoder.source.image_size} pixels; take no more, or a larger --image-size"
            )
        self._encoder = encoder
        self._means = np.kron(_means(rows, cells), _means(columns, cells))
        self.grid = (cells, cells)
        self.resample, self.batch_size = encoder.resample, encoder.batch_size
        self.source = replace(encoder.source, extra={"grid": cells})

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to [B, cells * cells + 1, d], the whole photo last; labels."""
        features, labels = self._encoder.encode(pixels)
        cells = self._means @ features[:, :-1].astype(np.float32)
        return np.concatenate([cells.astype(np.float16), features[:, -1:]], axis=1), labels


def _means(cells: int, fewer: int) -> NDArray[np.float32]:
    """[fewer, cells] weights that average a side's cells to fewer."""
    weights = np.zeros((fewer, cells), np.float32)
    for i in range(fewer):
        touched = slice(i * cells // fewer, -(-(i + 1) * cells // fewer))
        weights[i, touched] = 1 / (touched.stop - touched.start)
    return weights
