"""Postings, image by image → columns, superblock by superblock, similar images side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from indexer.columns.index import kernel
from indexer.columns.layout import (
    BITMAP,
    BITMAP_SHARE,
    BLOCK,
    BLOCKS,
    GROUP,
    HALF,
    LEVEL_SHARE,
    LEVELS,
    MOST_IN_LEVELS,
    PLACES,
    SUPERBLOCK,
    PostingRows,
    SpooledRows,
    create,
    edit,
    save,
)
from sparta.progress import Progress, no_progress

DIMENSIONS = 32
SAMPLE = 4096  # images, of which the directions are learned
ITERATIONS = 5
PIVOTS = 10_000  # images of a part, of which its widest direction is taken
AT_ONCE = 4096  # images whose postings are in memory
STRETCH = GROUP  # superblocks whose postings are in memory
FILLED = "levels", "bitmaps", "impacts", "postings"


def topical_order(rows: SpooledRows) -> NDArray[np.int32]:
    """Order images by halving them again and again across the direction they differ most in.

    The directions are those of a principal component tree (Sproull, 1991) over the images' impacts,
    reduced to the few dimensions in which a sample of the images varies most. Returns [N] int32,
    image numbers in their new order, the same for the same postings.
    """
    images = len(rows)
    order = np.arange(images, dtype=np.int32)
    if images <= BLOCK:
        return order
    directions = _directions(rows)
    points = np.empty((images, directions.shape[1]), np.float32)
    for first in range(0, images, AT_ONCE):
        own = order[first : first + AT_ONCE]
        points[first : first + AT_ONCE] = kernel.project(rows.take(own), directions)
    for first, half, last in halvings(images):
        own = order[first:last]
        along = points[own] @ _widest(points[own[:: max(1, len(own) // PIVOTS)]])
        order[first:last] = own[np.argpartition(along, half - first)]
    return order


def halvings(images: int) -> Iterator[tuple[int, int, int]]:
    """Divide positions into halves, and these again, down to blocks.

    Halves end where superblocks do, and within these where blocks do. Yields where a part begins,
    where its second half does, and where it ends; a part before its halves.
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


def _directions(rows: SpooledRows) -> NDArray[np.float32]:
    """[vocabulary, DIMENSIONS] the first right singular vectors of a sample, by subspace iteration.

    They are orthonormal, and fewer for a smaller vocabulary.
    """
    images, vocabulary = len(rows), len(rows.frequencies)
    rng = np.random.default_rng(0)
    sample = rows.take(np.sort(rng.choice(images, min(images, SAMPLE), replace=False)))
    directions = rng.standard_normal((vocabulary, DIMENSIONS), np.float32)
    for _ in range(ITERATIONS):
        found = kernel.project_back(sample, kernel.project(sample, directions), vocabulary)
        directions = np.ascontiguousarray(np.linalg.qr(found)[0])
    return directions


def _widest(points: NDArray[np.float32]) -> NDArray[np.float32]:
    """The first principal component of [n, d] points, [d]."""
    return np.linalg.eigh(np.cov(points, rowvar=False))[1][:, -1].astype(np.float32)


def lay_out(
    folder: Path, rows: SpooledRows, progress: Progress = no_progress, threads: int = 1
) -> None:
    """Write the files of `Columns` for the documents 0, 1, … whose postings the rows are.

    Beside a part of the postings for each thread, memory holds some 300 bytes an image. Progress
    has the stage "columns", in documents.
    """
    # Small products take longer in several threads of BLAS's, ten times where other work has cores.
    with threadpool_limits(1, user_api="blas"):
        order = topical_order(rows)
    images, present = len(rows), np.flatnonzero(rows.frequencies)
    by_frequency = present[np.argsort(-rows.frequencies[present], kind="stable")]
    row_of = np.full(len(rows.frequencies), -1, np.int32)
    row_of[by_frequency] = np.arange(len(present))
    superblocks = -(-images // SUPERBLOCK)
    stretches = range(0, superblocks, STRETCH)
    maxima = np.zeros((len(present), superblocks), rows.impact)
    sizes = np.zeros((len(present), (superblocks // GROUP + 1) * GROUP), np.uint8)

    def survey_from(first: int) -> None:
        kernel.survey(*_stretch(rows, order, first), first, row_of, maxima, sizes)

    _for_each(survey_from, stretches, threads)
    anchors, ends = _anchors(sizes), rows.frequencies[by_frequency]
    levelled, dense = _dense_rows(ends, images)
    bases = np.concatenate([np.cumsum(part) - part for part in (ends[:dense], ends[dense:])])
    steps = -(-maxima[:dense].max(axis=1, initial=1).astype(np.int64) // LEVELS)
    arrays = {"order": order, "row_of": row_of, "maxima": maxima, "bases": bases}
    arrays |= {"anchors": anchors, "sizes": sizes, "steps": steps.astype(np.uint16)}
    for name, values in arrays.items():
        save(folder, name, values)
    create(folder, "levels", (levelled, superblocks, HALF), np.uint8)
    create(folder, "bitmaps", (dense - levelled, superblocks, BITMAP), np.uint8)
    create(folder, "impacts", (int(ends[:dense].sum()) + PLACES,), rows.impact)
    listed = np.uint16 if rows.impact == np.uint8 else np.uint32
    create(folder, "postings", (int(ends[dense:].sum()),), listed)

    def fill_from(first: int) -> None:
        # Mapped again each time: the pages of a mapping count as memory in use until it is closed.
        made = [edit(folder, name) for name in FILLED]
        following = bases + anchors[:, first // GROUP].astype(np.int64)
        kernel.fill(*_stretch(rows, order, first), first, row_of, following, steps, *made)

    def tell(first: int) -> None:
        progress("columns", min((first + STRETCH) * SUPERBLOCK, images), images)

    _for_each(fill_from, stretches, threads, tell)


def _for_each(
    work: Callable[[int], None],
    stretches: range,
    threads: int,
    tell: Callable[[int], None] = lambda first: None,
) -> None:
    """Work on stretches, which share no superblock, and tell of each in turn."""
    with ThreadPoolExecutor(threads) as pool:
        for first, _ in zip(stretches, pool.map(work, stretches), strict=True):
            tell(first)


def _dense_rows(frequencies: NDArray[np.int64], images: int) -> tuple[int, int]:
    """How many rows have levels, and how many have these or bitmaps."""
    levelled = frequencies >= LEVEL_SHARE * images
    suited = frequencies[levelled].sum() <= MOST_IN_LEVELS * frequencies.sum()
    bitmaps = min(BITMAP_SHARE, LEVEL_SHARE) if suited else LEVEL_SHARE
    return int(levelled.sum()), int((frequencies >= bitmaps * images).sum())


def _anchors(sizes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Where groups of superblocks begin."""
    shape = len(sizes), sizes.shape[1] // GROUP, GROUP
    groups: NDArray[np.uint32] = sizes.reshape(shape).sum(axis=2, dtype=np.uint32)
    return groups.cumsum(axis=1, dtype=np.uint32) - groups


def _stretch(
    rows: SpooledRows, order: NDArray[np.int32], first: int
) -> tuple[NDArray[np.int32], PostingRows]:
    """Images of superblock `first` and those after it, in each in the order of a bitmap's bits.

    Returns their positions after that of the first, and their postings.
    """
    own = order[first * SUPERBLOCK : (first + STRETCH) * SUPERBLOCK]
    number = np.arange(PLACES, dtype=np.int32)
    places = (number % BLOCKS * BLOCK + number // BLOCKS)[:-1]  # the last one stays empty
    positions = (np.arange(STRETCH, dtype=np.int32)[:, None] * SUPERBLOCK + places).ravel()
    positions = positions[positions < len(own)]
    return positions, rows.take(own[positions])
