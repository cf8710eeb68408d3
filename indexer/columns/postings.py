"""Columns read without the compiled search: their postings, and the answers of `native`.

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
