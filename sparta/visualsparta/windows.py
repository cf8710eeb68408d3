"""Where a photo shows a term: of boxes over a square grid, the one with the highest mean score."""

from __future__ import annotations

from functools import cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

GRIDS = ("grid", "patch")  # kinds of features whose regions are cells, row by row, and the whole
# Chosen by how often the middle of a box lies on an object that is named, and by their overlap.
SIDE = 0.5  # of a box, relative to the photo's
PLACES = 6  # of boxes, in either direction
BOXES = PLACES * PLACES


class Windows(NamedTuple):
    """Boxes that explanations choose from, of photos with a grid of cells.

    Attributes:
        boxes: [BOXES, 4] float32, relative to the photo.
        weights: [BOXES, cells] float32, the share of each cell in the mean over a box.
    """

    boxes: NDArray[np.float32]
    weights: NDArray[np.float32]


@cache
def windows_of(kind: str | None, regions: int) -> Windows | None:
    """The windows of photos of so many regions; None unless they are a square grid and a whole."""
    side = isqrt(max(0, regions - 1))
    if kind not in GRIDS or side < 2 or side * side + 1 != regions:
        return None
    starts = np.linspace(0, 1 - SIDE, PLACES)
    edges = np.arange(side + 1) / side
    ends = np.minimum(starts[:, None] + SIDE, edges[1:])
    shares = (ends - np.maximum(starts[:, None], edges[:-1])).clip(0) / SIDE
    y, x = (one.ravel() for one in np.meshgrid(starts, starts, indexing="ij"))
    boxes = np.stack([x, y, x + SIDE, y + SIDE], axis=1)
    return Windows(boxes.astype(np.float32), np.kron(shares, shares).astype(np.float32))
