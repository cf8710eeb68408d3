"""Every engine against the right answers, where many images tie; and how cells are timed."""

import time
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.bench.collections import Corpus, enlarge
from eval.bench.engines import (
    DENSE,
    SPARSE,
    Answer,
    Bm25sEngine,
    ColumnsEngine,
    Engine,
    GroundTruth,
    LuceneEngine,
    Promise,
    WrongAnswer,
    find,
)
from eval.bench.queries import TermQuery, draw_queries
from eval.bench.speed import Asked, Pace, Timed, time_in_turns
from eval.bench.tables import ENOUGH
from eval.bench.vectors import enlarge_vectors
from sparta.extras import how_to_install
from tests.eval.bench.tiny import EXACT, corpus, dense, photo_like, queries, source

SCORES = np.array([[1, 3, 5, 0, 9, 5, 2, 5]], np.int32)


RIGHT = Answer(np.array([4, 2, 5]), np.array([9, 5, 5]))


@pytest.mark.parametrize(
    ("answer", "promises"),
    [
        (RIGHT, {Promise.ORDER, Promise.SCORES, Promise.ROUNDED}),
        (RIGHT._replace(documents=np.array([4, 7, 2])), {Promise.SCORES, Promise.ROUNDED}),
        (RIGHT._replace(scores=np.array([9, 5 + 1e-5, 5])), {Promise.ROUNDED}),
        (RIGHT._replace(scores=np.array([9, 5, 4])), set()),
        (RIGHT._replace(documents=np.array([4, 2, 1])), set()),
        (RIGHT._replace(documents=np.array([4, 2, 2])), set()),
        (Answer(RIGHT.documents[:2], RIGHT.scores[:2]), set()),
        (Answer(np.array([], int), np.array([])), set()),
    ],
)
def test_what_a_promise_holds(answer: Answer, promises: set[Promise]) -> None:
    for promise in Promise:
        if promise in promises | {Promise.NEAR}:
            GroundTruth(SCORES).check("engine", promise, [answer], 3)
        else:
            with pytest.raises(WrongAnswer, match="engine finds"):
                GroundTruth(SCORES).check("engine", promise, [answer], 3)


@pytest.mark.parametrize(
    ("documents", "overlap"),
    [([4, 2, 5], 1), ([7, 4, 5], 1), ([7, 5, 2], 1), ([1, 0, 4], 1 / 3), ([4, 4, 4], 1 / 3)],
)
def test_overlap_takes_any_of_equals(documents: list[int], overlap: float) -> None:
    answer = Answer(np.array(documents), np.zeros(3))
    found = GroundTruth(SCORES).check("engine", Promise.NEAR, [answer], 3)
    assert found == pytest.approx(overlap)


def overlap(name: str, data: object, truth: GroundTruth, folder: Path, k: int) -> float:
    engine: Engine[Any] = find([name])[0][name](data, folder)
    folder.mkdir()
    engine.build()
    engine.open()
    asked = queries(source(400))
    found = truth.check(name, engine.promise, [engine.search(query, k) for query in asked], k)
    assert engine.memory_bytes() > 0
    engine.close()
    return found


@pytest.mark.parametrize(
    ("name", "k", "bits"), [*product(SPARSE, (1, 10, 1000), (8,)), *product(EXACT, (10,), (12,))]
)
def test_sparse_engines(tmp_path: Path, name: str, k: int, bits: int) -> None:
    data = corpus(tmp_path / "corpus", source(400, bits=bits))
    truth = GroundTruth.of_impacts(data, queries(source(400)))
    found = overlap(name, data, truth, tmp_path / "engine", k)
    assert (name in EXACT) == (find([name])[0][name].promise is not Promise.NEAR)
    assert found == 1 if name in EXACT else found > 0.7


@pytest.mark.parametrize("name", [*DENSE])
@pytest.mark.parametrize("k", [1, 10])
def test_dense_engines(tmp_path: Path, name: str, k: int) -> None:
    vectors = dense("v", 20)
    data = enlarge_vectors(vectors, 800, "near-duplicates", tmp_path / "v.npy")
    truth = GroundTruth.of_vectors(data, queries(source(400)))
    assert overlap(name, data, truth, tmp_path / "engine", k) > 0.8


def test_engines_whose_library_is_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bm25sEngine, "library", "no_such_library")
    found, missing = find(["columns", "bm25s"])
    how = f"no_such_library is not installed: {how_to_install('bench')}"
    assert [*found] == ["columns"] and missing == {"bm25s": how}


# ---- cells in turns, and columns against Lucene --------------------------------------------------


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


def test_columns_are_faster_than_lucene(tmp_path: Path) -> None:
    """Medians of the same queries, asked in turns, so that a busy machine slows both alike."""
    source = photo_like(2000, 6000)
    queries = draw_queries(source, 400)
    rows = enlarge(source, IMAGES, TERMS, "blends")
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
