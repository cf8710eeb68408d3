"""Where a photo shows a term: the peak of its smoothed map over a square grid, and a box around."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRIDS = ("grid", "patch")  # kinds of features whose regions are cells, row by row, and the whole
SIDE = 0.5  # of a box; of 0.3 to 0.6 the one that overlaps named objects most
BLUR = (0.25, 0.5, 0.25)  # a Gaussian over three cells
# Bicubic interpolation (Keys, 1981, with a = -0.75) a quarter of a cell behind a cell's middle.
QUARTER = (-27 / 256, 225 / 256, 67 / 256, -9 / 256)


class Windows(NamedTuple):
    """Boxes that explanations show of photos with a grid of cells.

    Attributes:
        boxes: [K, 4] float32, relative to the photo.
        line: [2 * side, side] float32, which smooths and interpolates a row or a column of cells.
            Places have half a cell's side.
        numbers: [places] int64, the box around each place, column by column.
    """

    boxes: NDArray[np.float32]
    line: NDArray[np.float32]
    numbers: NDArray[np.int64]


@cache
def windows_of(kind: str | None, regions: int) -> Windows | None:
    """The windows of photos of so many regions; None unless they are a square grid and a whole."""
    side = isqrt(max(0, regions - 1))
    if kind not in GRIDS or side < 2 or side * side + 1 != regions:
        return None
    halves = _filter(side, QUARTER[::-1], -2), _filter(side, QUARTER, -1)
    line = np.stack(halves, axis=1).reshape(2 * side, side) @ _filter(side, BLUR, -1)
    middles = ((np.arange(2 * side) + 0.5) / (2 * side)).clip(SIDE / 2, 1 - SIDE / 2)
    middles, numbers = np.unique(middles.round(6), return_inverse=True)
    y, x = (one.ravel() for one in np.meshgrid(middles, middles, indexing="ij"))
    boxes = np.stack([x, y, x, y], axis=1) + SIDE / 2 * np.array([-1, -1, 1, 1])
    number = numbers[:, None] + numbers * len(middles)
    return Windows(boxes.astype(np.float32), line.astype(np.float32), number.ravel())


def _filter(side: int, weights: Sequence[float], first: int) -> NDArray[np.float64]:
    """[side, side] weighted sums of a row's cells from `first` on; the outermost go on outside."""
    steps = enumerate(weights, first)
    cells = [w * np.eye(side)[(np.arange(side) + d).clip(0, side - 1)] for d, w in steps]
    return np.sum(cells, axis=0)
