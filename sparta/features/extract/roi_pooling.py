"""From a feature map to one vector per box."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SAMPLES = 14  # along each side of a box


def pool_boxes(cells: NDArray[np.floating], boxes: NDArray[np.floating]) -> NDArray[np.float32]:
    """Mean of a feature map over each box, at 14 × 14 evenly spaced points between its cells.

    A point's value is interpolated bilinearly between the centres of the cells around it; outside
    the outermost centres it is that of the nearest (RoIAlign, He et al. 2017, with a mean over
    the whole box). Of a map of 7 or 14 cells a side, the whole photo gets the plain mean.

    Args:
        cells: [rows, columns, d] of any float type.
        boxes: [n, 4] x1, y1, x2, y2 relative to the photo (0 to 1).

    Returns:
        [n, d] float32.
    """
    rows, columns, dimension = cells.shape
    # The points form a grid, so the mean over them is a weighted sum over rows and columns.
    vertical = _weights(boxes[:, 1], boxes[:, 3], rows)
    horizontal = _weights(boxes[:, 0], boxes[:, 2], columns)
    weights = (vertical[:, :, None] * horizontal[:, None]).reshape(len(boxes), rows * columns)
    return weights @ cells.reshape(-1, dimension).astype(np.float32)


def _weights(
    start: NDArray[np.floating], end: NDArray[np.floating], cells: int
) -> NDArray[np.float32]:
    """[n, cells] share of each cell of a side in the mean over the points from start to end."""
    steps = (np.arange(SAMPLES) + 0.5) / SAMPLES
    points = (start[:, None] + (end - start)[:, None] * steps) * cells - 0.5
    distances = np.abs(points.clip(0, cells - 1)[:, :, None] - np.arange(cells))
    weights: NDArray[np.float32] = (1 - distances).clip(0).mean(axis=1).astype(np.float32)
    return weights
