"""A query as the kernel takes it, made before the kernel is timed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.queries import TermQuery
from indexer.columns.index import ColumnIndex
from indexer.columns.layout import LEVELS, NARROW, Columns

# Segments, their first documents, terms, counts, allowed, occupied, most superblocks, k, and for
# the answer documents and scores.
Arguments = tuple[
    list[Columns],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[Any],
    NDArray[np.bool_],
    NDArray[np.bool_],
    NDArray[np.int64],
    int,
    NDArray[np.int32],
    NDArray[np.int64],
]


def arguments_of(index: ColumnIndex, query: TermQuery, k: int) -> Arguments:
    """What `ColumnIndex.top` passes for a query of all images, with memory for its answer."""
    terms = {term: count for term, count in query.terms.items() if index.largest_impact(term)}
    bound = sum(count * (index.largest_impact(term) + LEVELS) for term, count in terms.items())
    everywhere = np.empty(0, np.bool_)
    size = min(k, len(index))
    return (
        [index.columns],
        np.zeros(1, np.int64),
        np.array(list(terms), np.int64),
        np.array(list(terms.values()), np.uint16 if bound < NARROW else np.uint32),
        everywhere,
        everywhere,
        np.empty(0, np.int64),
        size,
        np.empty(size, np.int32),
        np.empty(size, np.int64),
    )
