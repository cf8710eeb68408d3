"""Columns → postings image by image, some superblocks at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.kernel import compiled, list_of, unpack
from indexer.columns.layout import PLACE_BITS, PLACE_MASK, PLACES, SUPERBLOCK, Columns
from indexer.columns.row_files import PostingRows, term_type

STRETCH = 64  # superblocks whose postings are in memory


def rows_of(columns: Columns, live: NDArray[np.bool_]) -> Iterator[PostingRows]:
    """The postings of all images in the order of the columns, none for deleted images.

    Args:
        columns: of N images.
        live: [N] documents that are not deleted.
    """
    wanted = live[columns.order]
    term_of = np.empty(len(columns.maxima), term_type(len(columns.row_of)))
    present = np.flatnonzero(columns.row_of >= 0)
    term_of[columns.row_of[present]] = present
    for first in range(0, columns.maxima.shape[1], STRETCH):
        own = wanted[first * SUPERBLOCK : (first + STRETCH) * SUPERBLOCK]
        starts = np.zeros(len(own) + 1, np.int64)
        _count(columns, own, first, starts[1:])
        np.cumsum(starts, out=starts)
        terms = np.empty(starts[-1], term_of.dtype)
        impacts = np.empty(starts[-1], columns.maxima.dtype)
        _copy(columns, own, first, term_of, starts[:-1].copy(), terms, impacts)
        yield PostingRows(starts, terms, impacts)


@compiled
def _count(
    columns: Columns, wanted: NDArray[np.bool_], first: int, lengths: NDArray[np.int64]
) -> None:
    """Count the postings of each image from superblock `first` on."""
    dense = len(columns.steps)
    superblocks = -(-len(wanted) // SUPERBLOCK)
    unpacked = np.empty(PLACES, columns.impacts.dtype)
    for row in range(dense):
        for s in range(superblocks):
            unpack(columns, row, first + s, unpacked)
            own = wanted[s * SUPERBLOCK : (s + 1) * SUPERBLOCK]
            for place in range(len(own)):
                lengths[s * SUPERBLOCK + place] += own[place] and unpacked[place] > 0
    for row in range(dense, len(columns.maxima)):
        for s in range(superblocks):
            for posting in list_of(columns, row, first + s):
                image = s * SUPERBLOCK + (posting & PLACE_MASK)
                lengths[image] += wanted[image]


@compiled
def _copy(
    columns: Columns,
    wanted: NDArray[np.bool_],
    first: int,
    term_of: NDArray[Any],
    free: NDArray[np.int64],
    terms: NDArray[Any],
    impacts: NDArray[Any],
) -> None:
    """Copy these postings; free[i] is where image i's next one goes."""
    dense = len(columns.steps)
    superblocks = -(-len(wanted) // SUPERBLOCK)
    unpacked = np.empty(PLACES, columns.impacts.dtype)
    for row in range(dense):
        for s in range(superblocks):
            unpack(columns, row, first + s, unpacked)
            own = wanted[s * SUPERBLOCK : (s + 1) * SUPERBLOCK]
            for place in range(len(own)):
                if own[place] and unpacked[place] > 0:
                    image = s * SUPERBLOCK + place
                    terms[free[image]] = term_of[row]
                    impacts[free[image]] = unpacked[place]
                    free[image] += 1
    for row in range(dense, len(columns.maxima)):
        for s in range(superblocks):
            for posting in list_of(columns, row, first + s):
                at = s * SUPERBLOCK + np.int64(posting & PLACE_MASK)
                if wanted[at]:
                    terms[free[at]] = term_of[row]
                    impacts[free[at]] = posting >> PLACE_BITS
                    free[at] += 1
