"""The search of columns in NumPy, where the package was built without a C compiler.

The same functions as `indexer.columns.native`, and the same answers, some hundred times as slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK, Columns
from indexer.columns.postings import postings_in

Found = tuple[NDArray[np.int32], NDArray[np.int64]]


def best_documents(
    segments: list[Columns],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
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
    impacts: NDArray[Any],
    images: int,
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    k: int,
    floor: int,
) -> Found:
    """The k best columns of a matrix that reach a score."""
    sums = counts.astype(np.int64) @ impacts[terms, :images].astype(np.int64)
    return _best(np.where(sums >= floor, sums, 0), allowed, k)


def _best(sums: NDArray[np.int64], allowed: NDArray[np.bool_], k: int) -> Found:
    """The k largest sums above 0, falling, ties by number."""
    found = np.flatnonzero(sums * allowed if len(allowed) else sums)
    best = found[np.lexsort((found, -sums[found]))[:k]]
    return best.astype(np.int32), sums[best]


def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of the images at some positions."""
    impacts = np.zeros((len(positions), len(rows)), np.int64)
    for number, row in enumerate(rows.tolist()):
        if row >= 0:
            impacts[:, number] = impacts_of_row(columns, row)[columns.order[positions]]
    return impacts


def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents."""
    impacts = np.zeros(len(columns.order), np.uint16)
    _, positions, values = postings_in(columns, row, row + 1, 0, columns.maxima.shape[1])
    impacts[columns.order[positions]] = values
    return impacts


def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found."""
    first = np.arange(0, len(order), SUPERBLOCK)
    return np.logical_or.reduceat(allowed[order], first) if len(first) else np.empty(0, np.bool_)
