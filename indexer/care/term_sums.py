"""Sums of the impacts of each term over the images of an index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.postings import rows_of


class TermSums(NamedTuple):
    """What all images that are not deleted have of each term.

    Attributes:
        impacts: [V] int64.
        images: [V] int64, how many have it.
    """

    impacts: NDArray[np.int64]
    images: NDArray[np.int64]


def term_sums(columns: LiveColumns) -> TermSums:
    """Sum all impacts; some nanoseconds for each."""
    live = np.ones(columns.documents, np.bool_) if columns.live is None else columns.live
    sums = TermSums(*np.zeros((2, columns.vocabulary), np.int64))
    first = 0
    for segment in columns.segments.all:
        own, first = live[first : first + len(segment)], first + len(segment)
        for rows in rows_of(segment.index.columns, own):
            weighed = np.bincount(rows.terms, rows.impacts, columns.vocabulary)  # exact below 2^53
            sums.impacts[:] += weighed.astype(np.int64)
            sums.images[:] += np.bincount(rows.terms, minlength=columns.vocabulary)
    for newest in columns.newest:
        own, first = live[first : first + len(newest)], first + len(newest)
        matrix = newest.columns[:, : len(newest)][:, own]
        sums.impacts[:] += matrix.sum(axis=1, dtype=np.int64)
        sums.images[:] += np.count_nonzero(matrix, axis=1)
    return sums
