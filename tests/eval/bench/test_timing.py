"""Blocks in turn, counted by engines that note who is asked what; and columns against Lucene."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.bench.collections import enlarge, synthetic_queries, synthetic_source
from eval.bench.corpus import Corpus, TermQuery
from eval.bench.engines import Answer, ColumnsEngine, Engine, LuceneEngine, Promise
from eval.bench.timing import Pace, Timed, interleave
from eval.bench.truth import GroundTruth

IMAGES, TERMS, K = 20_000, 300, 10  # of the comparison
LEAST_RATIO = 3.0
QUERIES = [TermQuery(number, str(number), str(number), {}) for number in range(80)]
TIMED, WARM = range(60), range(60, 80)


class Noting(Engine):  # type: ignore[type-arg]
    settings = "notes"
    promise = Promise.NEAR

    def __init__(self, name: str, log: list[tuple[str, int]]) -> None:
        self.name, self.log = name, log
        self.read_before: list[int] = []  # how many queries had been asked

    def build(self) -> None: ...

    def open(self) -> None: ...

    def read_ahead(self) -> None:
        self.read_before.append(len(self.log))

    def search(self, query: TermQuery, k: int) -> Answer:
        self.log.append((self.name, query.number))
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
    # Before all queries, and once more after two of each have warmed up.
    assert all(engine.read_before == [0, 6] for engine in engines.values())
    for timed in found.values():
        assert [int(answer.documents[0]) for answer in timed.answers] == list(range(50))
        assert len(timed.latencies) == 60


def test_warming_up_takes_other_queries() -> None:
    log: list[tuple[str, int]] = []
    interleave({"a": Noting("a", log)}, QUERIES, 5, 1, Pace(warm_up=0.02, seconds=1000))
    before = [number for _, number in log[: log.index(("a", 0))]]
    assert len(before) >= 2 and set(before) <= set(WARM)
    assert all(number in TIMED for _, number in log[len(before) :])


def test_a_slow_engine_is_asked_less_but_ten_queries_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    means = {"slow": 0.005, "medium": 0.0005, "quick": 0.00001}
    monkeypatch.setattr("eval.bench.timing._warm_up", lambda engine, *_: means[engine.name])
    log: list[tuple[str, int]] = []
    engines = {name: Noting(name, log) for name in means}
    found = interleave(engines, QUERIES, 5, 1, Pace(warm_up=0, seconds=0.01))
    for name, count in (("slow", 10), ("medium", 20), ("quick", 60)):
        assert len(found[name].latencies) == count
        assert sorted(number for other, number in log if other == name) == list(range(count))


def test_two_threads_ask_at_once() -> None:
    meeting = threading.Barrier(2, timeout=10)

    class Meeting(Noting):
        def search(self, query: TermQuery, k: int) -> Answer:
            if query.number in TIMED:
                meeting.wait()
            return super().search(query, k)

    found = interleave({"a": Meeting("a", [])}, QUERIES, 5, 2, Pace(warm_up=0, seconds=1000))
    assert len(found["a"].latencies) == 60


def test_figures() -> None:
    timed = Timed([0.001] * 98 + [0.002, 0.011], 0.05, [])
    figures = timed.figures()
    assert figures["queries"] == 100 and figures["queries_per_second"] == 2000
    assert figures["mean_ms"] == pytest.approx(1.11)
    assert figures["p50_ms"] == pytest.approx(1) and 2 < figures["p99_ms"] < 3


def test_an_engine_that_fails_in_a_thread_ends_the_run() -> None:
    class Failing(Noting):
        def search(self, query: TermQuery, k: int) -> Answer:
            if query.number == 30:
                raise ValueError("thirty")
            return super().search(query, k)

    with pytest.raises(ValueError, match="thirty"):
        interleave({"a": Failing("a", [])}, QUERIES, 5, 2, Pace(warm_up=0, seconds=1000))


def median_seconds(timed: Timed) -> float:
    return sorted(timed.latencies)[len(timed.latencies) // 2]


def test_columns_are_faster_than_lucene(tmp_path: Path) -> None:
    """Medians of the same queries, asked in turns, so that a busy machine slows both alike."""
    source, queries = synthetic_source(2000), synthetic_queries(400)
    rows = enlarge(source, IMAGES, TERMS, "mixed")
    corpus = Corpus.write(tmp_path / "corpus", source.vocabulary, source.bits, rows)
    engines: dict[str, Engine[Any]] = {
        "lucene": LuceneEngine(corpus, tmp_path / "lucene"),
        "columns": ColumnsEngine(corpus, tmp_path / "columns"),
    }
    for engine in engines.values():
        engine.folder.mkdir()
        engine.build()
        engine.open()
    timed = interleave(engines, queries, K, 1, Pace(warm_up=1.5, seconds=2))
    truth = GroundTruth.of_impacts(corpus, queries[:100])
    for name, engine in engines.items():
        assert truth.check(name, engine.promise, timed[name].answers, K) == 1
        engine.close()
    ratio = median_seconds(timed["lucene"]) / median_seconds(timed["columns"])
    assert ratio >= LEAST_RATIO, f"columns are only {ratio:.1f} times as fast as Lucene"
