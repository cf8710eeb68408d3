"""Orders images so that similar ones are neighbours, which makes bounds over blocks tight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.columns.layout import BLOCK, SUPERBLOCK
from indexer.columns.row_files import PostingRows, SpooledRows

DIMENSIONS = 32
SAMPLE = 4096  # images, of which the directions are learned
ITERATIONS = 5
PIVOTS = 10_000  # images of a part, of which its widest direction is taken
AT_ONCE = 16_384  # images whose postings are in memory


def topical_order(rows: SpooledRows, dimensions: int = DIMENSIONS) -> NDArray[np.int32]:
    """Order images by halving them again and again across the direction they differ most in.

    The directions are those of a principal component tree (Sproull, 1991) over the images'
    impacts, reduced to the few dimensions in which a sample of the images varies most.

    Args:
        rows: postings of N images.
        dimensions: that images are reduced to.

    Returns:
        [N] int32, image numbers in their new order, the same for the same input.
    """
    images = len(rows)
    order = np.arange(images, dtype=np.int32)
    if images <= BLOCK:
        return order
    directions = _directions(rows, dimensions)
    points = np.empty((images, directions.shape[1]), np.float32)
    for first in range(0, images, AT_ONCE):
        own = order[first : first + AT_ONCE]
        _project(rows.take(own), directions, points[first : first + AT_ONCE])
    for first, half, last in halvings(images):
        own = order[first:last]
        along = points[own] @ _widest(points[own[:: max(1, len(own) // PIVOTS)]])
        order[first:last] = own[np.argpartition(along, half - first)]
    return order


def halvings(images: int) -> Iterator[tuple[int, int, int]]:
    """Divide positions into halves, and these again, down to blocks.

    Halves end where superblocks do, and within these where blocks do.

    Args:
        images: number of positions.

    Yields:
        where a part begins, where its second half does, and where it ends; a part before its
        halves.
    """
    parts = [(0, images)]
    while parts:
        first, last = parts.pop()
        size = last - first
        if size <= BLOCK:
            continue
        unit = SUPERBLOCK if size > SUPERBLOCK else BLOCK
        half = first + unit * -(-(size // 2) // unit)
        yield first, half, last
        parts += [(first, half), (half, last)]


def _directions(rows: SpooledRows, dimensions: int) -> NDArray[np.float32]:
    """The space of the first right singular vectors of a sample of images, by subspace iteration.

    Returns:
        [vocabulary, dimensions] (fewer for a smaller vocabulary), orthonormal.
    """
    images, vocabulary = len(rows), len(rows.frequencies)
    rng = np.random.default_rng(0)
    sample = rows.take(np.sort(rng.choice(images, min(images, SAMPLE), replace=False)))
    directions = rng.standard_normal((vocabulary, dimensions), np.float32)
    for _ in range(ITERATIONS):
        points = np.empty((len(sample.starts) - 1, directions.shape[1]), np.float32)
        _project(sample, directions, points)
        sums = np.zeros_like(directions)
        _project_back(sample, points, sums)
        directions = np.ascontiguousarray(np.linalg.qr(sums)[0])
    return directions


@njit(cache=True, nogil=True)
def _project(
    rows: PostingRows, directions: NDArray[np.float32], points: NDArray[np.float32]
) -> None:
    """Set points to impacts @ directions, row by row."""
    for image in range(len(rows.starts) - 1):
        point = points[image]
        point[:] = 0
        for posting in range(rows.starts[image], rows.starts[image + 1]):
            impact = np.float32(rows.impacts[posting])
            direction = directions[rows.terms[posting]]
            for d in range(len(point)):
                point[d] += impact * direction[d]


@njit(cache=True, nogil=True)
def _project_back(
    rows: PostingRows, points: NDArray[np.float32], directions: NDArray[np.float32]
) -> None:
    """Add impacts.T @ points to directions."""
    for image in range(len(rows.starts) - 1):
        point = points[image]
        for posting in range(rows.starts[image], rows.starts[image + 1]):
            impact = np.float32(rows.impacts[posting])
            direction = directions[rows.terms[posting]]
            for d in range(len(point)):
                direction[d] += impact * point[d]


def _widest(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first principal component of [n, d] points, [d]."""
    return np.linalg.eigh(np.cov(points, rowvar=False))[1][:, -1].astype(np.float32)
