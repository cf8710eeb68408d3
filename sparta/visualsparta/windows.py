"""Where a photo shows a term: the peak of its smoothed map over a square grid, and a box around."""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRIDS = ("grid", "patch")  # kinds of features whose regions are cells, row by row, and the whole
FINER = 2  # places to a cell's side
SIDE = 0.5  # of a box; of 0.3 to 0.6 the one that overlaps named objects most
BLUR = (0.25, 0.5, 0.25)  # a Gaussian over three cells


class Windows(NamedTuple):
    """Boxes that explanations show of photos with a grid of cells.

    Attributes:
        boxes: [K, 4] float32, relative to the photo.
        weights: [places, cells] float32; a place's product with a map over the cells is the map
            there, smoothed and interpolated.
        numbers: [places] int64, the box around each place.
    """

    boxes: NDArray[np.float32]
    weights: NDArray[np.float32]
    numbers: NDArray[np.int64]


@cache
def windows_of(kind: str | None, regions: int) -> Windows | None:
    """The windows of photos with so many regions; None if these are no square grid and the whole."""
    side = isqrt(max(0, regions - 1))
    if kind not in GRIDS or side < 2 or side * side + 1 != regions:
        return None
    blurred = sum(w * np.eye(side)[_cells(side, d)] for d, w in zip((-1, 0, 1), BLUR, strict=True))
    places = (np.arange(FINER * side) + 0.5) / FINER - 0.5  # in cells
    first = np.floor(places).astype(np.int64)
    fine = np.zeros((len(places), side))
    for near in range(-1, 3):
        cells = (first + near).clip(0, side - 1)
        fine += _cubic(np.abs(places - first - near))[:, None] * np.eye(side)[cells]
    line = fine @ blurred
    middles = ((places + 0.5) / side).clip(SIDE / 2, 1 - SIDE / 2)
    middles, numbers = np.unique(middles.round(6), return_inverse=True)
    y, x = (one.ravel() for one in np.meshgrid(middles, middles, indexing="ij"))
    boxes = np.stack([x, y, x, y], axis=1) + SIDE / 2 * np.array([-1, -1, 1, 1])
    number = numbers[:, None] * len(middles) + numbers
    return Windows(boxes.astype(np.float32), np.kron(line, line).astype(np.float32), number.ravel())


def _cells(side: int, step: int) -> NDArray[np.int64]:
    """[side] the neighbours of a row's cells, those outside replaced by the nearest."""
    return (np.arange(side) + step).clip(0, side - 1)


def _cubic(t: NDArray[np.float64], a: float = -0.75) -> NDArray[np.float64]:
    """Keys' kernel of cubic convolution (1981) at distances from 0 to 2, with torch's `a`."""
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, (((t - 5) * t + 8) * t - 4) * a
    return np.where(t <= 1, near, far)
