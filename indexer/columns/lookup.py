"""Looks up the impacts of some documents, which columns store by term."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.columns.kernel import compiled
from indexer.columns.layout import PLACE_BITS, PLACE_MASK, SUPERBLOCK, Columns


@compiled
def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of the images at some positions [d].

    Args:
        columns: of N images.
        positions: [d] of images, in any order.
        rows: [m] of terms, in any order; -1 for a term that no image has.
    """
    dense_rows = len(columns.dense)
    impacts = np.zeros((len(positions), len(rows)), np.int64)
    for i in range(len(rows)):
        listed = rows[i] - dense_rows
        for d in range(len(positions)):
            superblock, place = positions[d] // SUPERBLOCK, positions[d] % SUPERBLOCK
            if listed >= 0:
                base, starts = columns.bases[listed], columns.starts[listed]
                first, last = base + starts[superblock], base + starts[superblock + 1]
                for posting in columns.postings[first:last]:
                    if posting & PLACE_MASK == place:
                        impacts[d, i] = posting >> PLACE_BITS
            elif rows[i] >= 0:
                impacts[d, i] = columns.dense[rows[i], superblock, place]
    return impacts


@compiled
def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents for the term of a row, 0 where one lacks it."""
    impacts = np.zeros(len(columns.order), np.uint16)
    listed = row - len(columns.dense)
    if listed < 0:
        for position in range(len(impacts)):
            value = columns.dense[row, position // SUPERBLOCK, position % SUPERBLOCK]
            impacts[columns.order[position]] = value
        return impacts
    base, starts = columns.bases[listed], columns.starts[listed]
    for superblock in range(len(starts) - 1):
        first, last = base + starts[superblock], base + starts[superblock + 1]
        for posting in columns.postings[first:last]:
            place = np.int64(posting & PLACE_MASK)
            impacts[columns.order[superblock * SUPERBLOCK + place]] = posting >> PLACE_BITS
    return impacts
