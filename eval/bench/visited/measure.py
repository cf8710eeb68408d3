"""Measures searches that visit a share of the superblocks, beside exact ones."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.enlarge import CollectionKind
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.made_columns import made_columns
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.visited.results import Case, VisitedShares
from indexer.columns.index import ColumnIndex
from sparta.progress import Progress, no_progress

BLOCK = 50  # queries of one share before the next share's turn

Indexes = Mapping[float, ColumnIndex]  # by the share that a search visits


def measure_visited(
    source: ImpactSource,
    queries: Sequence[TermQuery],
    kinds: Sequence[CollectionKind],
    shares: Sequence[float],
    images: int,
    top_n: int | None,
    k: int,
    work: Path,
    progress: Progress = no_progress,
) -> VisitedShares:
    """Make a collection of each kind, and search it with every cap in turn.

    Args:
        source: whose images collections are made of.
        queries: to search.
        kinds: of collections.
        shares: of the superblocks, each above 0 and at most 1.
        images: of each collection.
        top_n: terms an image keeps, None for all.
        k: hits.
        work: folder of the collections, which the next measurement takes again.
        progress: stage "measure", in collections.
    """
    cases: list[Case] = []
    for done, kind in enumerate(kinds, start=1):
        columns = made_columns(source, kind, images, top_n, work).columns
        exact = ColumnIndex(columns)
        exact.read_ahead()
        indexes = {share: ColumnIndex(columns, share) for share in shares}
        recalls = _recalls(exact, indexes, queries, k)  # which warms up for the times
        times = _seconds(indexes, queries, k)
        cases += [Case.of(kind, share, times[share], recalls[share]) for share in shares]
        progress("measure", done, len(kinds))
    return VisitedShares(images, top_n, k, len(queries), cases)


def _recalls(
    exact: ColumnIndex, indexes: Indexes, queries: Sequence[TermQuery], k: int
) -> dict[float, float]:
    """Mean recall by share."""
    found: dict[float, list[float]] = {share: [] for share in indexes}
    for query in queries:
        _, right = exact.top(query.terms, k)
        for share, index in indexes.items():
            found[share].append(recall(index.top(query.terms, k)[1], right))
    return {share: float(np.mean(recalls)) for share, recalls in found.items()}


def recall(scores: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """The share of the exact hits that a search found, 1 if there are none.

    Args:
        scores: [<= k] of the search, falling.
        right: [<= k] of the exact search, falling.
    """
    return np.count_nonzero(scores >= right[-1]) / len(right) if len(right) else 1.0


def _seconds(
    indexes: Indexes, queries: Sequence[TermQuery], k: int
) -> dict[float, NDArray[np.float64]]:
    """Seconds [queries] of each search by share, a block of queries after another."""
    times: dict[float, list[float]] = {share: [] for share in indexes}
    for begin in range(0, len(queries), BLOCK):
        for share, index in indexes.items():
            for query in queries[begin : begin + BLOCK]:
                start = time.perf_counter()
                index.top(query.terms, k)
                times[share].append(time.perf_counter() - start)
    return {share: np.array(own) for share, own in times.items()}
