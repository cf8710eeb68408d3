"""Measures searches in columns beside what their bytes and adds must take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from eval.bench.query_latency.collections.enlarge import CollectionKind
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.made_columns import made_columns
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.roofline.machine import adds_per_second, bytes_per_second
from eval.bench.roofline.results import Case, Roofline
from eval.bench.roofline.work import Work, work_of
from indexer.columns.index import ColumnIndex
from sparta.progress import Progress, no_progress

COUNTED = 100  # queries whose bytes and adds are counted


def measure_roofline(
    source: ImpactSource,
    queries: Sequence[TermQuery],
    kinds: Sequence[CollectionKind],
    images: int,
    top_n: int | None,
    ks: Sequence[int],
    work: Path,
    progress: Progress = no_progress,
) -> Roofline:
    """Make a collection of each kind, and search it.

    Args:
        source: whose images collections are made of.
        queries: all are timed, the first hundred counted.
        kinds: of collections.
        images: of each.
        top_n: terms an image keeps, None for all.
        ks: numbers of hits.
        work: folder of the collections, which the next measurement takes again.
        progress: stage "measure", in cases.
    """
    read, added = bytes_per_second(), adds_per_second()
    cases: list[Case] = []
    for kind in kinds:
        index = made_columns(source, kind, images, top_n, work)
        for k in ks:
            done = [work_of(index, query.terms, k) for query in queries[:COUNTED]]
            mean = Work(*np.mean(done, axis=0).tolist())
            cases.append(
                Case(
                    kind=kind,
                    k=k,
                    work=mean,
                    mean_ms=1000 * _seconds(index, queries, k),
                    memory_ms=1000 * mean.bytes / read,
                    adds_ms=1000 * mean.adds / added,
                )
            )
            progress("measure", len(cases), len(kinds) * len(ks))
    return Roofline(images, top_n, read / 1e9, added / 1e9, cases)


def _seconds(index: ColumnIndex, queries: Sequence[TermQuery], k: int) -> float:
    """Mean seconds of a search, after one turn that warms up."""
    for query in queries:
        index.top(query.terms, k)
    start = time.perf_counter()
    for query in queries:
        index.top(query.terms, k)
    return (time.perf_counter() - start) / len(queries)
