"""The search of columns in C, compiled when the package was built.

`indexer.columns.in_numba` has the same functions, and says what they compute.

Raises:
    ImportError: when it is imported, where the package was built without a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK, Columns
from indexer.columns.native import _native


def best_documents(
    segments: list[Columns],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    most: NDArray[np.int64],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best documents of all segments; see `in_numba.best_documents`."""
    size = sum(min(k, len(columns.order)) for columns in segments)
    documents, scores = np.empty(size, np.int32), np.empty(size, np.int64)
    found = _native.best_documents(
        segments, firsts, terms, counts, allowed, occupied, most, k, documents, scores
    )
    return documents[:found], scores[:found]


def best_of_newest(
    impacts: NDArray[Any],
    images: int,
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    k: int,
    floor: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best columns of a matrix; see `in_numba.best_of_newest`."""
    documents, scores = np.empty(images, np.int32), np.empty(images, np.int64)
    found = _native.best_of_newest(
        impacts, images, terms, counts, allowed, k, floor, documents, scores
    )
    return documents[:found], scores[:found]


def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of the images at some positions; see `in_numba.impacts_at`."""
    impacts = np.empty((len(positions), len(rows)), np.int64)
    _native.impacts_at(columns, positions, rows, impacts)
    return impacts


def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents; see `in_numba.impacts_of_row`."""
    impacts = np.empty(len(columns.order), np.uint16)
    _native.impacts_of_row(columns, row, impacts)
    return impacts


def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found; see `in_numba.occupied`."""
    found = np.empty(-(-len(order) // SUPERBLOCK), np.bool_)
    _native.occupied(order, allowed, found)
    return found


def find_piece(
    texts: NDArray[np.uint8],
    starts: NDArray[np.int32],
    piece: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None:
    """Look for a piece of text in many words; see `indexer.filters.in_numba.find_piece`."""
    _native.find_piece(texts, starts, piece, classes, found)


def find_winners(
    data: NDArray[np.uint8],
    layouts: NDArray[np.int64],
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    won: NDArray[np.int64],
    regions: NDArray[np.int64],
    corners: NDArray[np.uint16],
    tokens: NDArray[np.int64],
    labels: NDArray[np.int64],
    words: NDArray[np.int64],
) -> tuple[int, int]:
    """What won some terms of some packed images; see `indexer.winners_in_numba.find_winners`."""
    return _native.find_winners(
        data, layouts, terms, order, wanted, won, regions, corners, tokens, labels, words
    )
