"""Columns made and read without the compiled module: postings, and what `native` does in C.

The answers take some 400 times as long; they are for a package built without a C compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
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
    PostingRows,
    term_type,
)

Array = NDArray[Any]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]
Found = tuple[NDArray[np.int32], Longs]


def postings_in(
    columns: Columns, row: int, after: int, first: int, last: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The postings of rows `row` to `after`, without that, in superblocks `first` to `last`.

    `first` begins a group. Returns rows, positions and impacts, by row and by superblock.
    """
    places, kinds = [], []
    levelled, dense = (min(max(row, end), after) for end in (len(columns.levels), columns.dense))
    if row < levelled:
        pairs = columns.levels[row:levelled, first:last]
        present = np.concatenate([pairs & 15, pairs >> 4], axis=2)
        places.append(np.flatnonzero(present) % PLACES)
    if levelled < dense:
        own = slice(levelled - len(columns.levels), dense - len(columns.levels))
        bits = columns.bitmaps[own, first:last, TOPS:]
        number = np.flatnonzero(np.unpackbits(bits, axis=2, bitorder="little")) % PLACES
        places.append(number % BLOCKS * BLOCK + number // BLOCKS)
    sizes = columns.sizes[row:after, first:last]
    totals = sizes.sum(axis=1, dtype=np.int64)
    begins = columns.bases[row:after] + columns.anchors[row:after, first // GROUP]
    for values, own in (
        (columns.impacts, slice(0, dense - row)),
        (columns.postings, slice(dense - row, None)),
    ):
        kinds.append(values[_runs(begins[own], totals[own])])
    places.append(kinds[1] & PLACE_MASK)
    superblocks = np.tile(np.arange(first, last, dtype=np.int32), after - row)
    positions = np.repeat(superblocks * SUPERBLOCK, sizes.ravel()) + np.concatenate(places)
    impacts = np.concatenate([kinds[0], (kinds[1] >> PLACE_BITS).astype(kinds[0].dtype)])
    return np.repeat(np.arange(row, after, dtype=np.int32), totals), positions, impacts


def _runs(begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from each begin on, so many of each, end to end."""
    numbers = np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
    numbers += np.arange(len(numbers))
    return numbers


def rows_of(columns: Columns, live: NDArray[np.bool_]) -> Iterator[PostingRows]:
    """The postings of all images in the order of the columns, by term.

    Images that are not `live` [N documents] have none.
    """
    wanted = live[columns.order]
    term_of = np.empty(len(columns.maxima), term_type(len(columns.row_of)))
    present = np.flatnonzero(columns.row_of >= 0)
    term_of[columns.row_of[present]] = present
    superblocks = columns.maxima.shape[1]
    for first in range(0, superblocks, GROUP):
        last = min(first + GROUP, superblocks)
        rows, positions, impacts = postings_in(columns, 0, len(term_of), first, last)
        images = (positions - first * SUPERBLOCK).astype(np.uint16)  # sorted by their digits
        own = wanted[first * SUPERBLOCK : last * SUPERBLOCK]
        terms = term_of[rows]
        order = np.argsort(terms, kind="stable")
        order = order[np.argsort(images[order], kind="stable")]
        order = order[own[images[order]]]
        lengths = np.bincount(images[order], minlength=len(own))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        yield PostingRows(starts, terms[order], impacts[order])


def project(rows: PostingRows, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points [n, d] of n images, the sums of impact × direction of [V, d]."""
    count = len(rows.starts) - 1
    images = np.repeat(np.arange(count), np.diff(rows.starts))
    columns = (directions[rows.terms, i] * rows.impacts for i in range(directions.shape[1]))
    return _sums(images, columns, count)


def project_back(
    rows: PostingRows, points: NDArray[np.float32], vocabulary: int
) -> NDArray[np.float32]:
    """Directions [V, d], the sums of impact × point of [n, d] over n images."""
    images = np.repeat(np.arange(len(points)), np.diff(rows.starts))
    columns = (points[images, i] * rows.impacts for i in range(points.shape[1]))
    return _sums(rows.terms, columns, vocabulary)


def _sums(places: Array, columns: Iterator[Array], count: int) -> NDArray[np.float32]:
    sums = [np.bincount(places, column, count) for column in columns]
    return np.ascontiguousarray(np.array(sums, np.float32).T)


def transpose(
    starts: Longs, numbers: Array, values: Array, size: int
) -> tuple[Longs, Array, Array]:
    """Of each number below `size` the rows that have it, rising, and their values."""
    order = np.argsort(numbers, kind="stable")
    rows = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))
    ends = np.cumsum(np.bincount(numbers, minlength=size))
    return np.concatenate([[0], ends]), rows[order], values[order]


def survey(
    positions: NDArray[np.int32],
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    maxima: NDArray[Any],
    sizes: NDArray[np.uint8],
) -> None:
    """First pass: the largest impacts of superblocks, and how many postings they have."""
    last = min(first + GROUP, maxima.shape[1])
    largest = np.zeros((len(maxima), last - first), maxima.dtype)
    places = row_of[rows.terms] * np.int32(last - first)
    places += np.repeat(positions // SUPERBLOCK, np.diff(rows.starts))
    np.maximum.at(largest.ravel(), places, rows.impacts)
    maxima[:, first:last] = largest
    sizes[:, first:last] = np.bincount(places, minlength=largest.size).reshape(largest.shape)


def fill(
    positions: NDArray[np.int32],
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    following: NDArray[np.int64],
    steps: NDArray[np.int64],
    levels: NDArray[np.uint8],
    bitmaps: NDArray[np.uint8],
    impacts: NDArray[Any],
    postings: NDArray[Any],
) -> None:
    """Second pass: dense rows and lists; `following` is where each row goes on."""
    ends, images, impact = transpose(rows.starts, row_of[rows.terms], rows.impacts, len(following))
    superblock, place = np.divmod(positions[images], SUPERBLOCK)
    counts = np.diff(ends)
    at = np.repeat(following - ends[:-1], counts) + np.arange(len(impact))
    levelled, dense = ends[len(levels)], ends[len(steps)]
    impacts[at[levelled:dense]] = impact[levelled:dense]
    postings[at[dense:]] = impact[dense:].astype(np.int32) << PLACE_BITS | place[dense:]

    last = min(first + GROUP, levels.shape[1])
    row = np.repeat(np.arange(len(steps), dtype=np.int32), counts[: len(steps)])
    kept = np.zeros((len(levels), last - first, PLACES), impacts.dtype)
    kept[row[:levelled], superblock[:levelled], place[:levelled]] = impact[:levelled]
    impacts[at[:levelled]] = kept[kept > 0]  # by place, not in the order of the bits
    level = np.zeros((len(steps), last - first, PLACES), np.uint8)
    step = steps.astype(np.uint32)[row]
    level[row, superblock[:dense], place[:dense]] = (impact[:dense] + step - 1) // step
    own = level[: len(levels)]
    levels[:, first:last] = own[..., :HALF] | own[..., HALF:] << 4
    own = level[len(levels) :].reshape(-1, last - first, BLOCKS, BLOCK)
    tops = own.max(axis=3)
    bitmaps[:, first:last, :TOPS] = tops[..., ::2] | tops[..., 1::2] << 4
    bits = np.packbits(own.swapaxes(2, 3) > 0, axis=3, bitorder="little")
    bitmaps[:, first:last, TOPS:] = bits[..., 0]


def open_columns(columns: Columns) -> Any:
    """What `best_documents` takes: the columns."""
    return columns


def best_documents(
    segments: list[Columns],
    firsts: Longs,
    terms: Longs,
    counts: Array,
    allowed: Mask,
    occupied: Mask,
    k: int,
) -> Found:
    """The k best documents of each segment; `occupied` would only save time."""
    found = [_best(np.zeros(0, np.int64), allowed[:0], k)]
    for columns, first in zip(segments, firsts.tolist(), strict=False):
        sums = np.zeros(len(columns.order), np.int64)
        for row, count in zip(columns.row_of[terms].tolist(), counts.tolist(), strict=True):
            if row >= 0:
                sums += count * impacts_of_row(columns, row).astype(np.int64)
        documents, scores = _best(sums, allowed[first : first + len(sums)], k)
        found.append((documents + np.int32(first), scores))
    documents, scores = map(np.concatenate, zip(*found, strict=True))
    return documents, scores


def best_of_newest(
    impacts: Array, images: int, terms: Longs, counts: Array, allowed: Mask, k: int, floor: int
) -> Found:
    """The k best columns of a matrix that reach a score."""
    sums = counts.astype(np.int64) @ impacts[terms, :images].astype(np.int64)
    return _best(np.where(sums >= floor, sums, 0), allowed, k)


def _best(sums: Longs, allowed: Mask, k: int) -> Found:
    """The k largest sums above 0, falling, ties by number."""
    if len(allowed):
        sums = sums * allowed
    least = np.partition(sums, -k)[-k] if k < len(sums) else 1
    found = np.flatnonzero(sums >= max(1, least))
    best = found[np.lexsort((found, -sums[found]))[:k]]
    return best.astype(np.int32), sums[best]


def impacts_at(columns: Columns, positions: Longs, rows: Longs) -> Longs:
    """Impacts [d, m] of the images at some positions."""
    none, documents = np.zeros(len(columns.order), np.uint16), columns.order[positions]
    own = [impacts_of_row(columns, row) if row >= 0 else none for row in rows.tolist()]
    found = np.array([one[documents] for one in own], np.int64)
    return found.reshape(len(rows), len(positions)).T


def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents."""
    impacts = np.zeros(len(columns.order), np.uint16)
    _, positions, values = postings_in(columns, row, row + 1, 0, columns.maxima.shape[1])
    impacts[columns.order[positions]] = values
    return impacts


def occupied(order: NDArray[np.int32], allowed: Mask) -> Mask:
    """[superblocks] whether each has a document that may be found."""
    first = np.arange(0, len(order), SUPERBLOCK)
    return np.logical_or.reduceat(allowed[order], first) if len(first) else np.empty(0, np.bool_)
