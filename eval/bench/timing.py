"""Times of several engines in one run, in turns of blocks of queries."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from eval.bench.corpus import TermQuery
from eval.bench.engines import Answer, Engine

LEAST = 10  # queries timed, however long they take


@dataclass(frozen=True)
class Pace:
    """How long to measure.

    Attributes:
        warm_up: seconds each engine answers before it is timed.
        seconds: of an engine's timed queries together, about.
        blocks: turns; the other engines run between two of them.
        kept: answers returned for checking.
    """

    warm_up: float
    seconds: float
    blocks: int = 10
    kept: int = 100


@dataclass(frozen=True)
class Timed:
    """One engine's timed queries.

    Attributes:
        latencies: seconds of each query.
        wall: seconds of all together; with two threads about half of the latencies' sum.
        answers: of the first queries.
    """

    latencies: list[float]
    wall: float
    answers: list[Answer]

    def figures(self) -> dict[str, float | int]:
        """Milliseconds of a query, and queries a second."""
        rate = len(self.latencies) / self.wall
        return {**milliseconds(self.latencies), "queries_per_second": rate}


def milliseconds(seconds: Sequence[float]) -> dict[str, float | int]:
    """Count, mean and percentiles of times, in milliseconds."""
    times = 1000 * np.array(seconds)
    tails = {f"p{p}_ms": float(np.percentile(times, p)) for p in (50, 95, 99)}
    return {"queries": len(times), "mean_ms": float(times.mean()), **tails}


def interleave(
    engines: Mapping[str, Engine[Any]],
    queries: Sequence[TermQuery],
    k: int,
    threads: int,
    pace: Pace,
) -> dict[str, Timed]:
    """Time open engines, on a number of threads with one core each.

    Every engine answers the first of the same queries, as many as fit its time but at least ten, in
    blocks: A B C, B C A, C A B, …, so that other load on the machine affects all of them alike, and
    none profits from its own data in the processor's cache. The last quarter of the queries warms
    up and is not timed.

    Args:
        engines: by name.
        queries: at least two.
        k: hits of an answer.
        threads: that search at once.
        pace: how long to warm up and to measure.
    """
    cut = max(1, len(queries) * 3 // 4)
    timed, warming = queries[:cut], queries[cut:]
    shares: dict[str, list[Sequence[TermQuery]]] = {}
    blocks: dict[str, list[Timed]] = {name: [] for name in engines}
    with (
        threadpool_limits(1),
        ThreadPoolExecutor(threads, initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        for engine in engines.values():
            engine.read_ahead()
        for name, engine in engines.items():
            mean = _warm_up(engine, warming, k, pace.warm_up)
            count = min(len(timed), max(LEAST, round(threads * pace.seconds / mean)))
            edges = np.linspace(0, count, min(pace.blocks, count) + 1).round().astype(int)
            shares[name] = [timed[a:b] for a, b in pairwise(edges)]
        # Where they fill memory, warming up one of them may have pushed out another's files.
        for engine in engines.values():
            engine.read_ahead()
        for name, number in _turns(list(engines), pace.blocks):
            if number < len(shares[name]):
                blocks[name].append(_ask(pool, threads, engines[name], shares[name][number], k))
    return {name: _together(parts, pace.kept) for name, parts in blocks.items()}


def _turns(names: list[str], blocks: int) -> Iterator[tuple[str, int]]:
    for number in range(blocks):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            yield name, number


def _warm_up(engine: Engine[Any], queries: Sequence[TermQuery], k: int, seconds: float) -> float:
    """Search until the time is over, at least twice; mean seconds of the later queries."""
    latencies: list[float] = []
    start = time.perf_counter()
    while len(latencies) < 2 or time.perf_counter() - start < seconds:
        latencies.append(_answer(engine, queries[len(latencies) % len(queries)], k)[0])
    return float(np.mean(latencies[len(latencies) // 2 :]))


def _ask(
    pool: ThreadPoolExecutor,
    threads: int,
    engine: Engine[Any],
    queries: Sequence[TermQuery],
    k: int,
) -> Timed:
    """One block: every thread takes the next query as soon as it is free."""
    waiting = enumerate(queries)

    def work() -> list[tuple[int, float, Answer]]:
        return [(number, *_answer(engine, query, k)) for number, query in waiting]

    start = time.perf_counter()
    if threads == 1:
        done = work()
    else:
        parts = [pool.submit(work) for _ in range(threads)]
        done = [one for part in parts for one in part.result()]
    wall = time.perf_counter() - start
    done.sort(key=lambda one: one[0])
    return Timed([latency for _, latency, _ in done], wall, [answer for *_, answer in done])


def _answer(engine: Engine[Any], query: TermQuery, k: int) -> tuple[float, Answer]:
    start = time.perf_counter()
    answer = engine.search(query, k)
    return time.perf_counter() - start, answer


def _together(blocks: list[Timed], kept: int) -> Timed:
    return Timed(
        [latency for block in blocks for latency in block.latencies],
        sum(block.wall for block in blocks),
        [answer for block in blocks for answer in block.answers][:kept],
    )
