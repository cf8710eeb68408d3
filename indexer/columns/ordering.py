"""Orders images so that similar ones are neighbours, which makes bounds over blocks tight."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from indexer.columns.layout import BLOCK, SUPERBLOCK
from indexer.columns.row_files import PostingRows, SpooledRows

DIMENSIONS = 32
SAMPLE = 4096  # images, of which the directions are learned
ITERATIONS = 5
PIVOTS = 10_000  # images of a part, of which its widest direction is taken
AT_ONCE = 4096  # images whose postings are in memory


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
        points[first : first + AT_ONCE] = _matrix(rows.take(own), directions) @ directions
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
    matrix = _matrix(sample, directions)
    for _ in range(ITERATIONS):
        directions = np.ascontiguousarray(np.linalg.qr(matrix.T @ (matrix @ directions))[0])
    return directions


def _matrix(rows: PostingRows, directions: NDArray[np.float32]) -> csr_array:
    """[images, vocabulary] impacts, as numbers that directions can be multiplied by."""
    impacts, terms = rows.impacts.astype(np.float32), rows.terms.astype(np.int32)
    return csr_array((impacts, terms, rows.starts), shape=(len(rows.starts) - 1, len(directions)))


def _widest(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first principal component of [n, d] points, [d]."""
    return np.linalg.eigh(np.cov(points, rowvar=False))[1][:, -1].astype(np.float32)
