"""The search of columns without a C compiler: the answers of `native`, some 400 times as slow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK, Columns
from indexer.columns.postings import postings_in

Array = NDArray[Any]
Longs = NDArray[np.int64]
Mask = NDArray[np.bool_]
Found = tuple[NDArray[np.int32], Longs]


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
    return np.array([one[documents] for one in own], np.int64).reshape(len(rows), -1).T


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
