"""Postings, image by image → columns, superblock by superblock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

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
    PLACE_BITS,
    PLACES,
    SUPERBLOCK,
    TOPS,
    create,
    edit,
    save,
)
from indexer.columns.ordering import topical_order
from indexer.columns.row_files import Chunk, PostingRows, RowFiles, SpooledRows
from sparta.progress import Progress, no_progress

STRETCH = 2 * GROUP  # superblocks whose postings are in memory
FILLED = "levels", "bitmaps", "impacts", "postings"

Order = Callable[[SpooledRows], NDArray[np.int32]]


def build_columns(
    folder: Path,
    chunks: Iterable[Chunk],
    vocabulary: int,
    bits: int,
    progress: Progress = no_progress,
    shares: tuple[float, float | None] = (LEVEL_SHARE, None),
    ordered: Order = topical_order,
) -> None:
    """Write the files of `Columns`.

    Args:
        folder: to be made; must not exist.
        chunks: postings of documents 0, 1, … in this order.
        vocabulary: number of terms.
        bits: of an impact, at most 16.
        progress: stage "columns", in documents.
        shares: of the images, from which on a term's row has levels, and a bitmap, None for what
            suits the postings; for trials of the layout.
        ordered: gives the order of the images, for the same.

    Raises:
        InputError: if a term or an impact is out of range.
    """
    folder.mkdir(parents=True)
    with closing(RowFiles(folder, vocabulary, bits)) as files:
        for chunk in chunks:
            files.add(chunk)
        lay_out(folder, files.rows(), progress, shares, ordered)


def lay_out(
    folder: Path,
    rows: SpooledRows,
    progress: Progress = no_progress,
    shares: tuple[float, float | None] = (LEVEL_SHARE, None),
    ordered: Order = topical_order,
    threads: int = 1,
) -> None:
    """As `build_columns`, from all postings at once, in some threads.

    Beside a part of the postings for each thread, memory holds some 300 bytes an image.
    """
    images, frequencies = len(rows), rows.frequencies
    # Small products take longer in several threads of BLAS's, ten times where other work has cores.
    with threadpool_limits(1, user_api="blas"):
        order = ordered(rows)
    present = np.flatnonzero(frequencies)
    by_frequency = present[np.argsort(-frequencies[present], kind="stable")]
    row_of = np.full(len(frequencies), -1, np.int32)
    row_of[by_frequency] = np.arange(len(present))
    levelled, dense = _dense_rows(frequencies[present], images, *shares)
    superblocks = -(-images // SUPERBLOCK)
    kind = rows.impact
    stretches = range(0, superblocks, STRETCH)

    maxima = np.zeros((len(present), superblocks), kind)
    sizes = np.zeros((len(present), (superblocks // GROUP + 1) * GROUP), np.uint8)

    def survey(first: int) -> None:
        _survey(_stretch(rows, order, first), first, row_of, maxima, sizes)

    _for_each(survey, stretches, threads)
    anchors = _anchors(sizes)
    ends = frequencies[by_frequency]
    bases = np.concatenate([np.cumsum(part) - part for part in (ends[:dense], ends[dense:])])
    steps = -(-maxima[:dense].max(axis=1, initial=1).astype(np.int64) // LEVELS)
    arrays = {"order": order, "row_of": row_of, "maxima": maxima, "bases": bases}
    arrays |= {"anchors": anchors, "sizes": sizes}
    for name, values in (arrays | {"steps": steps.astype(np.uint16)}).items():
        save(folder, name, values)

    create(folder, "levels", (levelled, superblocks, HALF), np.uint8)
    create(folder, "bitmaps", (dense - levelled, superblocks, BITMAP), np.uint8)
    create(folder, "impacts", (int(ends[:dense].sum()) + PLACES,), kind)
    listed = np.uint16 if kind == np.uint8 else np.uint32
    create(folder, "postings", (int(ends[dense:].sum()),), listed)

    def fill(first: int) -> None:
        # Mapped again each time: the pages of a mapping count as memory in use until it is closed.
        made = [edit(folder, name) for name in FILLED]
        following = bases + anchors[:, first // GROUP].astype(np.int64)
        _fill(_stretch(rows, order, first), first, row_of, sizes, following, steps, *made)

    def tell(first: int) -> None:
        progress("columns", min((first + STRETCH) * SUPERBLOCK, images), images)

    _for_each(fill, stretches, threads, tell)


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


def _dense_rows(
    frequencies: NDArray[np.int64], images: int, levels: float, bitmaps: float | None
) -> tuple[int, int]:
    """How many rows have levels, and how many have these or bitmaps."""
    levelled = frequencies >= levels * images
    if bitmaps is None:
        suited = frequencies[levelled].sum() <= MOST_IN_LEVELS * frequencies.sum()
        bitmaps = min(BITMAP_SHARE, levels) if suited else levels
    return int(levelled.sum()), int((frequencies >= bitmaps * images).sum())


def _anchors(sizes: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Where groups of superblocks begin."""
    shape = len(sizes), sizes.shape[1] // GROUP, GROUP
    groups: NDArray[np.uint32] = sizes.reshape(shape).sum(axis=2, dtype=np.uint32)
    return groups.cumsum(axis=1, dtype=np.uint32) - groups


def _stretch(rows: SpooledRows, order: NDArray[np.int32], first: int) -> PostingRows:
    """Postings of the images of superblock `first` and those after it, in their new order."""
    return rows.take(order[first * SUPERBLOCK : (first + STRETCH) * SUPERBLOCK])


@njit(cache=True, nogil=True)
def _survey(
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    maxima: NDArray[Any],
    sizes: NDArray[np.uint8],
) -> None:
    """First pass: the largest impacts of superblocks, and how many postings they have.

    Rows are those of the images from superblock `first` on, here and in the second pass.
    """
    for image in range(len(rows.starts) - 1):
        superblock = first + image // SUPERBLOCK
        for posting in range(rows.starts[image], rows.starts[image + 1]):
            row, impact = row_of[rows.terms[posting]], rows.impacts[posting]
            maxima[row, superblock] = max(maxima[row, superblock], impact)
            sizes[row, superblock] += 1


@njit(nogil=True, inline="always")
def _mark(bitmap: NDArray[np.uint8], place: int, level: np.int64) -> None:
    """Set the bit of a place, and let the level of its block be at least this one."""
    block = place // BLOCK
    bitmap[TOPS + place % BLOCK] |= 1 << block
    shift = 4 * (block % 2)
    missing = level - (bitmap[block // 2] >> shift & 15)
    if missing > 0:
        bitmap[block // 2] += missing << shift


@njit(nogil=True, inline="always")
def _level(impact: np.int64, step: np.int64, inverse: np.int64) -> np.int64:
    """(impact + step - 1) // step, given 2^32 // step + 1: right for impacts of 16 bits."""
    return ((impact + step - 1) * inverse) >> 32


@njit(nogil=True, inline="always")
def _write_levels(
    own: NDArray[Any],
    step: np.int64,
    inverse: np.int64,
    levels: NDArray[np.uint8],
    impacts: NDArray[Any],
) -> None:
    """Write the impacts of a superblock, 0 for images without the term, in the order of places.

    Which images have it a processor could not guess, so that all impacts are put down, and the
    place moves on only after one.
    """
    kept = np.empty(SUPERBLOCK, own.dtype)
    count = 0
    for place in range(SUPERBLOCK):
        level = _level(np.int64(own[place]), step, inverse)
        levels[place % HALF] |= level << (4 * (place // HALF))
        kept[count] = own[place]
        count += int(level > 0)
    impacts[:count] = kept[:count]


@njit(cache=True, nogil=True)
def _fill(
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    sizes: NDArray[np.uint8],
    following: NDArray[np.int64],
    steps: NDArray[np.int64],
    levels: NDArray[np.uint8],
    bitmaps: NDArray[np.uint8],
    impacts: NDArray[Any],
    postings: NDArray[Any],
) -> None:
    """Second pass: the dense rows, and the lists of the others.

    Images come in the order of the bits. Impacts of rows with levels are kept until all of a
    superblock are known. `following` is where each row goes on, and advanced.
    """
    images = len(rows.starts) - 1
    kept = np.zeros((len(levels), SUPERBLOCK), impacts.dtype)
    inverses = 2**32 // steps + 1
    for begin in range(0, images, SUPERBLOCK):
        superblock = first + begin // SUPERBLOCK
        for number in range(PLACES):
            place = number % BLOCKS * BLOCK + number // BLOCKS
            image = begin + place
            if place == SUPERBLOCK or image >= images:
                continue
            for posting in range(rows.starts[image], rows.starts[image + 1]):
                row, impact = row_of[rows.terms[posting]], np.int64(rows.impacts[posting])
                if row < len(levels):
                    kept[row, place] = impact
                    continue
                at = following[row]
                following[row] += 1
                if row < len(steps):
                    level = _level(impact, steps[row], inverses[row])
                    _mark(bitmaps[row - len(levels), superblock], place, level)
                    impacts[at] = impact
                else:
                    postings[at] = impact << PLACE_BITS | place
        for row in range(len(levels)):
            after = impacts[following[row] :]
            _write_levels(kept[row], steps[row], inverses[row], levels[row, superblock], after)
            following[row] += sizes[row, superblock]
        kept[:] = 0
