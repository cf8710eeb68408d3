"""Times of several engines in one run, in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from eval.bench.engines import Answer, Engine
from eval.bench.queries import TermQuery
from sparta.progress import Progress, no_progress

ENOUGH = 1_000  # timed queries of a cell; fewer are marked in the tables
LEAST = 10  # queries of a warm-up, however long they take
CHECKED = 100  # answers of a cell that are compared with exact ones

Name = TypeVar("Name")
Round = list[list[float]]  # seconds of each query, by thread


@dataclass(frozen=True)
class Pace:
    """How long a cell is measured."""

    seconds: float = 5  # timed, and at most as many to warm up
    warm_up: int = 500  # queries before the first timed one, at most, but ten at least
    rounds: int = 10  # repetitions that the timed seconds are divided into


class Asked(NamedTuple):
    """What a cell times: an open engine, the hits of an answer, and threads that ask at once."""

    engine: Engine[Any]
    k: int
    threads: int


@dataclass(frozen=True)
class Timed:
    """One cell's times."""

    threads: int  # that asked at once
    warm_up: int  # queries before the first timed one
    answers: list[Answer]  # to the first of the queries
    rounds: list[Round]  # in order

    def figures(self) -> dict[str, float | int]:
        """Queries per second and milliseconds a query, by one clock: their product is threads.

        Both are the median of the rounds; "low_ms" and "high_ms" are their quartiles. Percentiles
        are of all timed queries.
        """
        rates = [sum(len(own) / sum(own) for own in one) for one in self.rounds]
        latencies = [seconds for one in self.rounds for own in one for seconds in own]
        low, rate, high = (float(one) for one in np.percentile(rates, (25, 50, 75)))
        tails = {f"p{p}_ms": 1000 * float(np.percentile(latencies, p)) for p in (50, 95, 99)}
        return {
            "queries": len(latencies),
            "seconds": sum(max(sum(own) for own in one) for one in self.rounds),
            "warm_up": self.warm_up,
            "queries_per_second": rate,
            "ms": 1000 * self.threads / rate,
            "low_ms": 1000 * self.threads / high,
            "high_ms": 1000 * self.threads / low,
            **tails,
        }


def time_in_turns(
    cells: Mapping[Name, Asked],
    queries: Sequence[TermQuery],
    pace: Pace,
    progress: Progress = no_progress,
) -> dict[Name, Timed]:
    """Time cells of open engines in rounds, taking turns: A B C, B C A, C A B.

    Other load on the machine then affects all cells alike, and none profits from its own data in
    the processor's cache. Every cell is asked the same queries in the same order: all of them
    shuffled, then all of them shuffled again, and so on. Each thread has one core.

    Progress is of the stage "rounds", in rounds of a cell.
    """
    names = list(cells)
    streams = {
        name: [_shuffled(queries, thread) for thread in range(cell.threads)]
        for name, cell in cells.items()
    }
    found: dict[Name, list[Round]] = {name: [] for name in names}
    with (
        threadpool_limits(1),
        ThreadPoolExecutor(initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        _read_ahead(cells)
        warmed = {name: _warm_up(cell, queries, pace) for name, cell in cells.items()}
        # Where the indexes fill the memory, warming up one may have pushed out another's files.
        _read_ahead(cells)
        for number in range(pace.rounds):
            first = number % len(names)
            for place, name in enumerate(names[first:] + names[:first], 1):
                seconds = pace.seconds / pace.rounds
                found[name].append(_round(pool, cells[name], streams[name], seconds))
                progress("rounds", number * len(names) + place, pace.rounds * len(names))
    return {name: Timed(cells[name].threads, *warmed[name], found[name]) for name in names}


def _read_ahead(cells: Mapping[Name, Asked]) -> None:
    for engine in {id(cell.engine): cell.engine for cell in cells.values()}.values():
        engine.read_ahead()


def _shuffled(queries: Sequence[TermQuery], seed: int) -> Iterator[TermQuery]:
    rng = np.random.default_rng(seed)
    while True:
        for place in rng.permutation(len(queries)):
            yield queries[place]


def _warm_up(cell: Asked, queries: Sequence[TermQuery], pace: Pace) -> tuple[int, list[Answer]]:
    """How many queries were asked, and the answers to the first."""
    answers: list[Answer] = []
    asked, start = 0, time.perf_counter()
    while asked < LEAST or (asked < pace.warm_up and time.perf_counter() - start < pace.seconds):
        answer = cell.engine.search(queries[asked % len(queries)], cell.k)
        if asked < min(CHECKED, len(queries)):
            answers.append(answer)
        asked += 1
    return asked, answers


def _round(
    pool: ThreadPoolExecutor, cell: Asked, streams: Sequence[Iterator[TermQuery]], seconds: float
) -> Round:
    def ask(stream: Iterator[TermQuery]) -> list[float]:
        latencies: list[float] = []
        now = start = time.perf_counter()
        while now - start < seconds or not latencies:
            cell.engine.search(next(stream), cell.k)
            then = time.perf_counter()
            latencies.append(then - now)  # no time falls between two queries
            now = then
        return latencies

    if cell.threads == 1:
        return [ask(streams[0])]
    return [one.result() for one in [pool.submit(ask, stream) for stream in streams]]
