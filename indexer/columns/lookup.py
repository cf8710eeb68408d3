"""Looks up the impacts of one document, which columns store by term."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.columns.kernel import compiled
from indexer.columns.layout import PLACE_BITS, PLACE_MASK, SUPERBLOCK, Columns


@compiled
def impacts_at(columns: Columns, rows: NDArray[np.int64], position: int) -> NDArray[np.int64]:
    """Impacts [m] of the image at a position, for rows [m] of any order, of which -1 has none."""
    superblock, place = position // SUPERBLOCK, position % SUPERBLOCK
    dense_rows = len(columns.dense)
    impacts = np.zeros(len(rows), np.int64)
    for i in range(len(rows)):
        listed = rows[i] - dense_rows
        if listed >= 0:
            base, starts = columns.bases[listed], columns.starts[listed]
            first, last = base + starts[superblock], base + starts[superblock + 1]
            for posting in columns.postings[first:last]:
                if posting & PLACE_MASK == place:
                    impacts[i] = posting >> PLACE_BITS
        elif rows[i] >= 0:
            impacts[i] = columns.dense[rows[i], superblock, place]
    return impacts
