"""Blocks in turn, counted by engines that note who is asked what."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from eval.speed.engines.base import Answer, Engine, Promise
from eval.speed.measure import Pace, Timed, interleave
from eval.speed.queries import Query

QUERIES = [Query(number, str(number), str(number), {}) for number in range(80)]
TIMED, WARM = range(60), range(60, 80)


class Noting(Engine):  # type: ignore[type-arg]
    settings = "notes"
    promise = Promise.NEAR

    def __init__(self, name: str, log: list[tuple[str, int]], pause: float = 0) -> None:
        self.name, self.log, self.pause = name, log, pause
        self.threads: set[int] = set()

    def build(self) -> None: ...

    def open(self) -> None: ...

    def search(self, query: Query, k: int) -> Answer:
        self.log.append((self.name, query.number))
        self.threads.add(threading.get_ident())
        time.sleep(self.pause)
        return Answer(np.array([query.number]), np.array([k]))


def timed_part(log: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(name, number) for name, number in log if number in TIMED]


@pytest.mark.parametrize("threads", [1, 2])
def test_every_engine_is_asked_all_queries_once_in_blocks_by_turns(threads: int) -> None:
    log: list[tuple[str, int]] = []
    engines = {name: Noting(name, log) for name in "abc"}
    pace = Pace(warm_up=0, seconds=1000, blocks=3, kept=50)
    found = interleave(engines, QUERIES, 5, threads, pace)
    part = timed_part(log)
    assert [name for name, _ in part[::20]] == [*"abcbcacab"]
    for start in range(0, len(part), 20):
        block = part[start : start + 20]
        assert len({name for name, _ in block}) == 1
        first = 20 * (start // 60)
        assert sorted(number for _, number in block) == list(range(first, first + 20))
    for timed in found.values():
        assert [int(answer.documents[0]) for answer in timed.answers] == list(range(50))
        assert len(timed.latencies) == 60


def test_warming_up_takes_other_queries() -> None:
    log: list[tuple[str, int]] = []
    interleave({"a": Noting("a", log)}, QUERIES, 5, 1, Pace(warm_up=0.02, seconds=1000))
    before = [number for _, number in log[: log.index(("a", 0))]]
    assert len(before) >= 2 and set(before) <= set(WARM)
    assert all(number in TIMED for _, number in log[len(before) :])


def test_a_slow_engine_is_asked_less_but_ten_queries_at_least() -> None:
    log: list[tuple[str, int]] = []
    engines = {"slow": Noting("slow", log, 0.005), "quick": Noting("quick", log)}
    found = interleave(engines, QUERIES, 5, 1, Pace(warm_up=0, seconds=0.01))
    assert len(found["slow"].latencies) == 10
    assert len(found["quick"].latencies) == 60
    assert sorted(n for name, n in timed_part(log) if name == "slow") == list(range(10))


def test_two_threads_ask_at_once() -> None:
    engine = Noting("a", [], 0.002)
    found = interleave({"a": engine}, QUERIES, 5, 2, Pace(warm_up=0, seconds=1000))["a"]
    assert len(engine.threads - {threading.get_ident()}) == 2
    assert found.wall < 0.8 * sum(found.latencies)


def test_figures() -> None:
    timed = Timed([0.001] * 98 + [0.002, 0.011], 0.05, [])
    figures = timed.figures()
    assert figures["queries"] == 100 and figures["queries_per_second"] == 2000
    assert figures["mean_ms"] == pytest.approx(1.11)
    assert figures["p50_ms"] == pytest.approx(1) and 2 < figures["p99_ms"] < 3


def test_an_engine_that_fails_in_a_thread_ends_the_run() -> None:
    class Failing(Noting):
        def search(self, query: Query, k: int) -> Answer:
            if query.number == 30:
                raise ValueError("thirty")
            return super().search(query, k)

    with pytest.raises(ValueError, match="thirty"):
        interleave({"a": Failing("a", [])}, QUERIES, 5, 2, Pace(warm_up=0, seconds=1000))
