"""Orders images so that similar ones are neighbours, which makes bounds over blocks tight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.layout import BLOCK, SUPERBLOCK

DIMENSIONS = 32
SAMPLE = 4096  # images, of which the directions are learned
ITERATIONS = 5
PIVOTS = 10_000  # images of a part, of which its widest direction is taken


def topical_order(
    starts: NDArray[np.int64], terms: NDArray[Any], impacts: NDArray[Any], vocabulary: int
) -> NDArray[np.int32]:
    """Order images by halving them again and again across the direction they differ most in.

    The directions are those of a principal component tree (Sproull, 1991) over the images'
    impacts, reduced to the few dimensions in which a sample of the images varies most.

    Args:
        starts: [N + 1], image i's postings are `starts[i]:starts[i + 1]`.
        terms: [P] vocabulary ids.
        impacts: [P].
        vocabulary: number of terms.

    Returns:
        [N] int32, image numbers in their new order, the same for the same input.
    """
    images = len(starts) - 1
    order = np.arange(images, dtype=np.int32)
    if images <= BLOCK:
        return order
    directions = _directions(starts, terms, impacts, vocabulary)
    points = np.empty((images, directions.shape[1]), np.float32)
    _project(starts, terms, impacts, directions, points)
    parts = [(0, images)]
    while parts:
        first, last = parts.pop()
        size = last - first
        if size <= BLOCK:
            continue
        # Parts end where superblocks do, and within these where blocks do.
        unit = SUPERBLOCK if size > SUPERBLOCK else BLOCK
        half = unit * -(-(size // 2) // unit)
        own = order[first:last]
        along = points[own] @ _widest(points[own[:: max(1, size // PIVOTS)]])
        order[first:last] = own[np.argpartition(along, half)]
        parts += [(first, first + half), (first + half, last)]
    return order


def _directions(
    starts: NDArray[np.int64], terms: NDArray[Any], impacts: NDArray[Any], vocabulary: int
) -> NDArray[np.float32]:
    """The space of the first right singular vectors of a sample of images, by subspace iteration.

    Returns:
        [vocabulary, DIMENSIONS] (fewer for a smaller vocabulary), orthonormal.
    """
    images = len(starts) - 1
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(images, min(images, SAMPLE), replace=False))
    own = [slice(starts[row], starts[row + 1]) for row in rows]
    lengths = starts[rows + 1] - starts[rows]
    sample = csr_array(
        (
            np.concatenate([impacts[part] for part in own]).astype(np.float32),
            np.concatenate([terms[part] for part in own]).astype(np.int32),
            np.concatenate([[0], np.cumsum(lengths)]),
        ),
        shape=(len(rows), vocabulary),
    )
    directions = rng.standard_normal((vocabulary, DIMENSIONS), np.float32)
    for _ in range(ITERATIONS):
        directions = np.linalg.qr(sample.T @ (sample @ directions))[0]
    return np.ascontiguousarray(directions)


@njit(cache=True, nogil=True)
def _project(
    starts: NDArray[np.int64],
    terms: NDArray[Any],
    impacts: NDArray[Any],
    directions: NDArray[np.float32],
    points: NDArray[np.float32],
) -> None:
    """Set points to impacts @ directions, row by row."""
    for image in range(len(starts) - 1):
        point = points[image]
        point[:] = 0
        for posting in range(starts[image], starts[image + 1]):
            impact, direction = np.float32(impacts[posting]), directions[terms[posting]]
            for d in range(len(point)):
                point[d] += impact * direction[d]


def _widest(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first principal component of [n, d] points, [d]."""
    return np.linalg.eigh(np.cov(points, rowvar=False))[1][:, -1].astype(np.float32)
