"""Measures an index in Milvus beside its columns: the push, and searches of both in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from indexer.milvus.collection import check_exact
from indexer.milvus.connection import Milvus
from indexer.milvus.push import Update, build_version, collection_of
from indexer.milvus.search import open_milvus
from indexer.search.api import Searcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

SHARES = (1.0, 0.5, 0.01)  # of the images that are allowed; 1 for no filter
WARM_UP = 20  # queries


@dataclass(frozen=True)
class Times:
    """Milliseconds of a search.

    Attributes:
        share: of the images that were allowed, at random.
        engine: "columns" or "milvus".
        mean_ms: over the queries.
        p50_ms: likewise.
        p99_ms: likewise.
    """

    share: float
    engine: str
    mean_ms: float
    p50_ms: float
    p99_ms: float


@dataclass
class MilvusFigures:
    """What was measured; both engines gave the same hits.

    Attributes:
        images: of the index.
        push_seconds: until the last one was acknowledged.
        queries: that were timed, each in both engines and once a share.
        times: of searches.
    """

    images: int
    push_seconds: float
    queries: int
    times: list[Times] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)

    def table(self) -> Table:
        """All figures, a row each."""
        rate = self.images / self.push_seconds
        title = f"{self.images:,} images pushed in {self.push_seconds:.1f} s, {rate:,.0f} a second"
        table = Table("images allowed", "engine", "mean ms", "p50 ms", "p99 ms", title=title)
        for one in self.times:
            times = (f"{ms:.3f}" for ms in (one.mean_ms, one.p50_ms, one.p99_ms))
            table.add_row(f"{100 * one.share:g} %", one.engine, *times)
        return table


def measure_milvus(
    index: Path,
    uri: str,
    name: str,
    texts: Sequence[str],
    k: int = 10,
    seed: int = 0,
    progress: Progress = no_progress,
) -> MilvusFigures:
    """Push an index into a new collection, search it, and drop it.

    Args:
        index: the index.
        uri: of Milvus.
        name: of the collection, before its version.
        texts: queries.
        k: hits of a search.
        seed: of the images that filters let through.
        progress: stages "push", in images, and "measure", in queries.

    Raises:
        InputError: if there is such a collection, a call fails, or hits differ.
    """
    milvus = Milvus(uri)
    with closing(open_index(index, "columns")) as columns:
        collection = collection_of(milvus, name, build_version(index), columns)
        if collection.exists():
            raise InputError(f"{uri} has a collection {collection.name}: give another --collection")
        check_exact(milvus, name)
        collection.create()
        try:
            start = time.perf_counter()
            Update(index, columns, collection).all(progress)
            found = MilvusFigures(len(columns), time.perf_counter() - start, len(texts))
            there = open_milvus(index, columns, uri, name)
            for number, share in enumerate(SHARES):
                found.times += _compare(columns, there, texts, k, share, seed)
                progress("measure", (number + 1) * len(texts), len(SHARES) * len(texts))
        finally:
            collection.drop()
    return found


def _compare(
    columns: LuceneSearcher, there: Searcher, texts: Sequence[str], k: int, share: float, seed: int
) -> list[Times]:
    """Each query in one engine and then in the other."""
    documents = columns.field_index().images
    drawn: NDArray[np.bool_] = np.random.default_rng(seed).random(documents) < share
    drawn.flags.writeable = False  # as those of filters are
    allowed = None if share == 1 else drawn
    for text in texts[:WARM_UP]:
        columns.search(text, k, allowed=allowed)
    seconds: dict[str, list[float]] = {"columns": [], "milvus": []}
    for text in texts:
        start = time.perf_counter()
        right = columns.search(text, k, allowed=allowed)
        between = time.perf_counter()
        found = there.search(text, k, allowed=allowed)
        seconds["columns"].append(between - start)
        seconds["milvus"].append(time.perf_counter() - between)
        if found.hits != right.hits:
            raise InputError(f"the hits of the two engines differ for {text!r}")
    return [_times(share, engine, values) for engine, values in seconds.items()]


def _times(share: float, engine: str, seconds: Sequence[float]) -> Times:
    p50, p99 = np.percentile(seconds, [50, 99])
    figures = (round(1000 * float(one), 3) for one in (np.mean(seconds), p50, p99))
    return Times(share, engine, *figures)
