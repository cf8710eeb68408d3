"""Cells in turns, counted by engines that note who is asked what; and columns against Lucene."""

import threading
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.bench.collections import draw_queries, enlarge
from eval.bench.corpus import Corpus, TermQuery
from eval.bench.engines import Answer, ColumnsEngine, Engine, LuceneEngine, Promise
from eval.bench.timing import ENOUGH, Asked, Pace, Timed, time_in_turns
from eval.bench.truth import GroundTruth
from tests.eval.bench.tiny import photo_like

IMAGES, TERMS, K = 20_000, 300, 10  # of the comparison
LEAST_RATIO = 3.0
QUERIES = [TermQuery(number, str(number), str(number), {}) for number in range(20)]
WARM_UP = 15


class Noting(Engine):  # type: ignore[type-arg]
    settings = "notes"
    promise = Promise.NEAR

    def __init__(self, name: str, log: list[tuple[str, int]], seconds: float = 0) -> None:
        self.name, self.log, self.seconds = name, log, seconds
        self.read_before: list[int] = []  # how many queries had been asked

    def build(self) -> None: ...

    def open(self) -> None: ...

    def read_ahead(self) -> None:
        self.read_before.append(len(self.log))

    def search(self, query: TermQuery, k: int) -> Answer:
        self.log.append((self.name, query.number))
        if self.seconds:
            time.sleep(self.seconds)
        return Answer(np.array([query.number]), np.array([k]))


def test_cells_take_turns_with_the_same_queries_until_the_stated_seconds_are_over() -> None:
    """The fault: each query was asked once, so that 0.3 ms were timed instead of seconds."""
    log: list[tuple[str, int]] = []
    engines = [Noting(name, log) for name in "abc"]
    cells = {engine.name: Asked(engine, 10, 1) for engine in engines}
    steps: list[tuple[object, ...]] = []
    pace = Pace(seconds=0.2, warm_up=WARM_UP, rounds=3)
    found = time_in_turns(cells, QUERIES, pace, lambda *step: steps.append(step))
    turns = [name for name, _ in groupby(name for name, _ in log[3 * WARM_UP :])]
    assert "".join(turns) == "abcbcacab"
    assert steps == [("rounds", done, 9) for done in range(1, 10)]
    # Before all queries, and once more when all have warmed up.
    assert all(engine.read_before == [0, 3 * WARM_UP] for engine in engines)
    streams = []
    for name, timed in found.items():
        figures = timed.figures()
        assert figures["seconds"] >= 0.2 and figures["queries"] >= ENOUGH
        assert figures["warm_up"] == WARM_UP == len(timed.answers)
        asked = [number for other, number in log if other == name]
        assert len(asked) == WARM_UP + figures["queries"]
        assert asked[:WARM_UP] == [*range(WARM_UP)]
        streams.append(asked[WARM_UP:])
    both = min(map(len, streams))
    assert streams[0][:both] == streams[1][:both] == streams[2][:both]
    passes = [tuple(streams[0][start : start + 20]) for start in range(0, both - 20, 20)]
    assert all(sorted(one) == [*range(20)] for one in passes)  # shuffled again and again
    assert len({*passes}) > 1 and passes[0] != tuple(range(20))


def test_a_slow_engine_is_timed_as_long_and_warms_up_with_fewer_queries() -> None:
    engines = {"slow": Noting("slow", [], 0.002), "quick": Noting("quick", [])}
    cells = {name: Asked(engine, 10, 1) for name, engine in engines.items()}
    found = time_in_turns(cells, QUERIES, Pace(seconds=0.1, warm_up=500, rounds=2))
    slow, quick = (found[name].figures() for name in engines)
    assert 10 <= slow["warm_up"] < 100 and quick["warm_up"] == 500
    assert min(slow["seconds"], quick["seconds"]) >= 0.1 and slow["p50_ms"] >= 2
    assert slow["queries"] < 60 < quick["queries"]


def test_figures_are_the_median_of_the_rounds() -> None:
    rounds = [[[0.001] * 98], [[0.002] * 50], [[0.004, 0.004]]]
    figures = Timed(1, 5, [], rounds).figures()
    assert (figures["ms"], figures["low_ms"], figures["high_ms"]) == pytest.approx(
        (2, 4 / 3, 8 / 3)
    )
    assert figures["queries_per_second"] == pytest.approx(500) and figures["queries"] == 150
    assert figures["p50_ms"] == pytest.approx(1) and 2 <= figures["p99_ms"] <= 4
    two = Timed(2, 5, [], [[[0.001] * 10, [0.002] * 5]]).figures()
    assert two["queries_per_second"] == pytest.approx(1500)


def test_two_threads_ask_at_once_and_what_fails_in_one_ends_the_run() -> None:
    meeting = threading.Barrier(2, timeout=10)

    class Meeting(Noting):
        def search(self, query: TermQuery, k: int) -> Answer:
            if len(self.log) in (10, 11):  # the first timed query of each thread
                super().search(query, k)
                meeting.wait()
            return super().search(query, k)

    engine = Meeting("a", [])
    time_in_turns({"a": Asked(engine, 5, 2)}, QUERIES, Pace(seconds=0, warm_up=1, rounds=1))
    assert len(engine.log) >= 12
    meeting.abort()
    with pytest.raises(threading.BrokenBarrierError):
        again = Asked(Meeting("a", []), 5, 2)
        time_in_turns({"a": again}, QUERIES, Pace(seconds=1000, warm_up=1))


def test_columns_are_faster_than_lucene(tmp_path: Path) -> None:
    """Medians of the same queries, asked in turns, so that a busy machine slows both alike."""
    source = photo_like(2000, 6000)
    queries = draw_queries(source, 400)
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
    cells = {name: Asked(engine, K, 1) for name, engine in engines.items()}
    timed = time_in_turns(cells, queries, Pace(seconds=2, warm_up=400))
    truth = GroundTruth.of_impacts(corpus, queries[:100])
    for name, engine in engines.items():
        assert truth.check(name, engine.promise, timed[name].answers, K) == 1
        engine.close()
    ratio = timed["lucene"].figures()["p50_ms"] / timed["columns"].figures()["p50_ms"]
    assert ratio >= LEAST_RATIO, f"columns are only {ratio:.1f} times as fast as Lucene"
