"""The bytes that a search in columns must read, and the impacts that it must add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from indexer.columns.index import ColumnIndex
from indexer.columns.layout import (
    BITMAP,
    BLOCK,
    BLOCKS,
    GROUP,
    HALF,
    PLACE_BITS,
    PLACE_MASK,
    PLACES,
    TOPS,
)

LINE = 64  # bytes of memory that are read at once


class Work(NamedTuple):
    """Of one query.

    Attributes:
        bound_bytes, list_bytes, dense_bytes: of maxima, of lists with where they start, and of
            dense rows, where a look-up of an impact counts as a line of the cache.
        adds: of impacts, levels or maxima to sums.
        superblocks, images: whose bound reaches the k-th best score, as shares of all.
    """

    bound_bytes: float
    list_bytes: float
    dense_bytes: float
    adds: float
    superblocks: float
    images: float

    @property
    def bytes(self) -> float:
        """All of them."""
        return self.bound_bytes + self.list_bytes + self.dense_bytes


def work_of(index: ColumnIndex, terms: Mapping[int, int], k: int) -> Work:
    """What `best_documents` does if it knows the k-th best score from the beginning.

    Every maximum of a superblock is read once; of superblocks whose bound reaches the score, the
    lists and the levels; of images whose bound does, the impacts in dense rows.

    Args:
        index: to search.
        terms: vocabulary ids and counts, as for `ColumnIndex.top`.
        k: hits.
    """
    columns = index.columns
    rows = {int(columns.row_of[t]): n for t, n in terms.items() if columns.row_of[t] >= 0}
    dense = {row: n for row, n in rows.items() if row < columns.dense}
    size, many = columns.maxima.itemsize, columns.maxima.shape[1]
    _, scores = index.top(terms, k)
    least = int(scores[-1]) if len(scores) == k else 1
    bounds = np.zeros(many, np.int64)
    for row, count in rows.items():
        bounds += count * columns.maxima[row].astype(np.int64)
    chosen = np.flatnonzero(bounds >= least)
    sums = np.zeros((len(chosen), PLACES), np.int64)
    postings = 0
    for row in rows.keys() - dense.keys():
        postings += _add_list(index, row, rows[row], chosen, sums)
    for row, count in dense.items():
        sums += count * int(columns.steps[row]) * _levels(index, row, chosen)
    reached = int((sums >= least).sum())
    maxima = len(rows) * many
    starts = (GROUP + columns.anchors.itemsize) * len(chosen) * (len(rows) - len(dense))
    levelled = sum(row < len(columns.levels) for row in dense)
    levels_read = len(chosen) * (levelled * HALF + (len(dense) - levelled) * BITMAP)
    looked_up = len(dense) * reached
    return Work(
        bound_bytes=size * maxima,
        list_bytes=starts + columns.postings.itemsize * postings,
        dense_bytes=levels_read + LINE * looked_up,
        adds=maxima + postings + PLACES * len(dense) * len(chosen) + looked_up,
        superblocks=len(chosen) / many,
        images=reached / len(index),
    )


def _levels(index: ColumnIndex, row: int, chosen: np.ndarray) -> np.ndarray:
    """[superblocks, 256] bounds of the impacts of a dense row, in its steps."""
    columns = index.columns
    if row < len(columns.levels):
        pairs = columns.levels[row, chosen]
        return np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.int64)
    bitmaps = columns.bitmaps[row - len(columns.levels), chosen]
    tops = np.stack([bitmaps[:, :TOPS] & 15, bitmaps[:, :TOPS] >> 4], axis=2).reshape(-1, BLOCKS)
    bits = np.unpackbits(bitmaps[:, TOPS:, None], axis=2, bitorder="little")
    has = bits.transpose(0, 2, 1).reshape(-1, PLACES)
    levels: np.ndarray = has.astype(np.int64) * np.repeat(tops, BLOCK, axis=1)
    return levels


def _add_list(
    index: ColumnIndex, row: int, count: int, chosen: np.ndarray, sums: np.ndarray
) -> int:
    """Add a list's postings of some superblocks to sums [superblocks, 256]; how many there are."""
    columns = index.columns
    sizes = columns.sizes[row].astype(np.int64)
    starts, lengths = np.cumsum(sizes) - sizes, sizes[chosen]
    places = np.repeat(starts[chosen] - np.cumsum(lengths) + lengths, lengths)
    places += np.arange(len(places))
    own = columns.postings[int(columns.bases[row]) + places].astype(np.int64)
    at = np.repeat(np.arange(len(chosen)), lengths), own & PLACE_MASK
    sums[at] += count * (own >> PLACE_BITS)
    return len(own)
