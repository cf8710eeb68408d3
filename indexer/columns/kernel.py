"""Equation 15 on integers over columns: the exact best k, most superblocks passed over unread.

Compiled by numba. Sums are of the type of `counts`, which the caller makes wide enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.columns.layout import (
    BLOCK,
    BLOCKS,
    GROUP,
    HALF,
    PLACE_BITS,
    PLACE_MASK,
    PLACES,
    SUPERBLOCK,
    TOPS,
    Columns,
)
from indexer.columns.visited import LEADERS

BATCH = 64  # superblocks scored term by term, so that the reads of one do not wait for another's
MANY = 32  # images of a superblock whose impacts are added up one by one
BUCKETS = 256

compiled = njit(cache=True, nogil=True, error_model="numpy")
# Calls that pass parts of arrays count references to them, at the price of a few sums.
inlined = njit(nogil=True, error_model="numpy", inline="always")


@compiled
def best_documents(
    columns: Columns,
    rows: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    most: int,
    k: int,
    floor: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k documents with the largest sums of count × impact.

    A superblock's bound is the sum of its terms' largest impacts there. The few superblocks of the
    highest bounds come first; of the others, all below the k-th best score so far are skipped. An
    image's bound is the sum of its impacts in lists and of its levels in dense rows, or its
    block's; only those that reach that score are looked up in dense rows.

    Args:
        columns: of N images.
        rows: [m] rising rows of the query's terms.
        counts: [m] uint16 or uint32, how often the query holds each; a sum of impacts, each
            `LEVELS` larger, is below `NARROW` or 2^31.
        allowed: [N] bool, documents that may be found; empty for all.
        occupied: [S] bool, superblocks that have one of those; empty for all.
        most: superblocks that are visited at most: those of the highest bounds, of equal ones the
            first. Documents of others are not found; S for exact answers.
        k: documents at most.
        floor: the least score of a document that may be found, below 2^31.

    Returns:
        documents [<= k] int32 and scores int64, falling by score, ties by document; documents
        that share no term with the query are not among them.
    """
    bounds = _superblock_bounds(columns.maxima, rows, counts)
    for s in range(len(occupied)):
        if not occupied[s]:
            bounds[s] = 0
    if most < len(bounds):
        _keep_highest(bounds, most)
    least = max(1, _leading_bound(bounds))
    # Every key of the floor's score is larger: see `_keep`.
    worst = np.int64(floor) << 32
    heap = np.full(k, worst)
    _score_between(columns, rows, counts, allowed, bounds, least, 2**32, heap)
    _score_between(columns, rows, counts, allowed, bounds, 1, least, heap)
    found = np.sort(heap)[::-1]
    found = found[: np.count_nonzero(found > worst)]
    return (~found).astype(np.int32), found >> 32


@compiled
def _superblock_bounds(
    maxima: NDArray[Any], rows: NDArray[np.int64], counts: NDArray[Any]
) -> NDArray[Any]:
    """[S] the largest score a document of each superblock can have."""
    bounds = np.zeros(maxima.shape[1], counts.dtype)
    for i in range(len(rows)):
        count, own = counts[i], maxima[rows[i]]
        for s in range(len(bounds)):
            bounds[s] += count * own[s]
    return bounds


@compiled
def _keep_highest(bounds: NDArray[Any], most: int) -> None:
    """Set all bounds but the `most` highest to 0; of equal ones the first are kept."""
    least = 0  # of those that are kept, bit by bit
    for bit in range(31, -1, -1):
        if _count_from(bounds, least | (1 << bit)) >= most:
            least |= 1 << bit
    spare = most - _count_from(bounds, least + 1)
    for s in range(len(bounds)):
        spare -= bounds[s] == least
        if bounds[s] < least or (bounds[s] == least and spare < 0):
            bounds[s] = 0


@compiled
def _count_from(bounds: NDArray[Any], least: int) -> int:
    count = 0
    for bound in bounds:
        count += bound >= least
    return count


@compiled
def _leading_bound(bounds: NDArray[Any]) -> int:
    """A bound that about LEADERS superblocks reach."""
    largest, shift = np.int64(bounds.max()), 0
    while largest >> shift >= BUCKETS:
        shift += 1
    buckets = np.zeros(BUCKETS, np.int64)
    for bound in bounds:
        buckets[bound >> shift] += 1
    bucket, reached = BUCKETS, 0
    while bucket > 0 and reached < LEADERS:
        bucket -= 1
        reached += buckets[bucket]
    return bucket << shift


@compiled
def _score_between(
    columns: Columns,
    rows: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    bounds: NDArray[Any],
    least: int,
    below: int,
    heap: NDArray[np.int64],
) -> None:
    """Score the superblocks with `least` <= bound < `below` that may still enter the heap.

    They come as they lie in memory, which reads ahead where few are skipped.
    """
    batch = np.empty(BATCH, np.int64)
    sums = np.empty((BATCH, PLACES), counts.dtype)
    filled = 0
    least = max(least, heap[0] >> 32)
    for s in range(len(bounds)):
        if least <= bounds[s] < below:
            batch[filled] = s
            filled += 1
            if filled == BATCH:
                _score_batch(columns, rows, counts, allowed, batch, sums, heap)
                filled = 0
                least = max(least, heap[0] >> 32)
    _score_batch(columns, rows, counts, allowed, batch[:filled], sums, heap)


@compiled
def _score_batch(
    columns: Columns,
    rows: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    batch: NDArray[np.int64],
    sums: NDArray[Any],
    heap: NDArray[np.int64],
) -> None:
    """Sum the lists exactly, bound what the dense rows add, and finish the images that may do.

    The batch holds superblocks; sums are scratch, the heap is changed in place.
    """
    sums[: len(batch)] = 0
    dense = np.searchsorted(rows, len(columns.steps))
    for i in range(dense, len(rows)):
        _add_postings(columns, rows[i], counts[i], batch, sums)
    bounds = np.empty(PLACES, counts.dtype)
    for b in range(len(batch)):
        superblock, own = int(batch[b]), sums[b]
        bounds[:] = own
        for i in range(dense):
            _add_levels(columns, rows[i], counts[i], superblock, bounds)
        first = superblock * SUPERBLOCK
        for place in range(min(SUPERBLOCK, len(columns.order) - first) if len(allowed) else 0):
            if not allowed[columns.order[first + place]]:
                bounds[place] = 0
        least = max(1, heap[0] >> 32)
        found = 0
        for place in range(SUPERBLOCK):
            found += bounds[place] >= least
        if found > MANY:
            for i in range(dense):
                _add_impacts(columns, rows[i], counts[i], superblock, own)
        for place in range(SUPERBLOCK if found else 0):
            if bounds[place] >= max(1, heap[0] >> 32):
                score = int(own[place])
                for i in range(0 if found > MANY else dense):
                    score += counts[i] * dense_impact(columns, rows[i], superblock, place)
                _keep(columns, superblock * SUPERBLOCK + place, score, allowed, heap)


@inlined
def start_of(columns: Columns, row: int, superblock: int) -> int:
    """Where a superblock of a row begins, in impacts or in postings."""
    group = superblock // GROUP
    start = columns.bases[row] + np.int64(columns.anchors[row, group])
    for before in range(group * GROUP, superblock):
        start += np.int64(columns.sizes[row, before])
    return int(start)


@inlined
def list_of(columns: Columns, row: int, superblock: int) -> NDArray[Any]:
    """The postings of a row that is not dense in a superblock."""
    first = start_of(columns, row, superblock)
    return columns.postings[first : first + np.int64(columns.sizes[row, superblock])]


@inlined
def _add_postings(
    columns: Columns, row: int, count: int, batch: NDArray[np.int64], sums: NDArray[Any]
) -> None:
    """Add count × impact of a list's postings in some superblocks."""
    for b in range(len(batch)):
        own = sums[b]
        for posting in list_of(columns, row, batch[b]):
            own[posting & PLACE_MASK] += count * (posting >> PLACE_BITS)


@inlined
def level_at(columns: Columns, row: int, superblock: int, place: int) -> np.int64:
    """The level of the image at a place for the term of a dense row, 0 if it lacks that."""
    number, level = row - len(columns.levels), np.int64(0)
    if number < 0:
        level = np.int64(columns.levels[row, superblock, place % HALF] >> (place // HALF * 4)) & 15
    else:
        bitmap, block = columns.bitmaps[number, superblock], place // BLOCK
        has = (bitmap[TOPS + place % BLOCK] >> block) & 1
        level = np.int64(has * (bitmap[block // 2] >> (block % 2 * 4) & 15))
    return level


@inlined
def stored_place(columns: Columns, row: int, number: int) -> int:
    """The place whose impact is stored after those of `number` others, if all have the term."""
    if row < len(columns.levels):
        return number
    return number % BLOCKS * BLOCK + number // BLOCKS


@inlined
def _add_levels(
    columns: Columns, row: int, count: int, superblock: int, bounds: NDArray[Any]
) -> None:
    """Add the largest impacts that a dense row's levels allow, × count."""
    step = count * columns.steps[row]
    for place in range(SUPERBLOCK):
        bounds[place] += step * level_at(columns, row, superblock, place)


@inlined
def _add_impacts(
    columns: Columns, row: int, count: int, superblock: int, sums: NDArray[Any]
) -> None:
    """Add count × impact of a dense row."""
    impacts = np.empty(PLACES, columns.impacts.dtype)
    unpack(columns, row, superblock, impacts)
    for place in range(SUPERBLOCK):
        sums[place] += count * impacts[place]


@compiled
def unpack(columns: Columns, row: int, superblock: int, impacts: NDArray[Any]) -> None:
    """Set impacts [256] to a dense row's in a superblock, 0 where an image lacks the term."""
    at = start_of(columns, row, superblock)
    for number in range(PLACES):
        place = stored_place(columns, row, number)
        impacts[place] = 0
        if level_at(columns, row, superblock, place):
            impacts[place] = columns.impacts[at]
            at += 1


@compiled
def dense_impact(columns: Columns, row: int, superblock: int, place: int) -> int:
    """The impact of the image at a place for the term of a dense row, 0 if it lacks that."""
    if not level_at(columns, row, superblock, place):
        return 0
    at, number = start_of(columns, row, superblock), 0
    while stored_place(columns, row, number) != place:
        at += int(level_at(columns, row, superblock, stored_place(columns, row, number)) > 0)
        number += 1
    return int(columns.impacts[at])


@inlined
def _keep(
    columns: Columns,
    position: int,
    score: int,
    allowed: NDArray[np.bool_],
    heap: NDArray[np.int64],
) -> None:
    """Put a document into the heap if it is better than the worst there.

    A key holds the score, and below it the document with its bits turned, so that of equal scores
    the lower document has the larger key.
    """
    if position < len(columns.order):
        document = np.int64(columns.order[position])
        key = (np.int64(score) << 32) | (~document & 0xFFFFFFFF)
        if score > 0 and key > heap[0] and (len(allowed) == 0 or allowed[document]):
            replace_worst(heap, key)


@compiled
def replace_worst(heap: NDArray[np.int64], key: np.int64) -> None:
    """Put a key in the place of the smallest, which a heap has first."""
    place = 0
    while True:
        child = 2 * place + 1
        if child + 1 < len(heap) and heap[child + 1] < heap[child]:
            child += 1
        if child >= len(heap) or heap[child] >= key:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = key
