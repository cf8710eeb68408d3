"""Every engine against the right answers, on collections where many images tie."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.bench.engines import DENSE, SPARSE, Answer, Bm25sEngine, Engine, Promise, find
from eval.bench.truth import GroundTruth, WrongAnswer
from eval.bench.vectors import enlarge_vectors
from tests.eval.bench.tiny import EXACT, corpus, dense, queries, source

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
    data = enlarge_vectors(vectors, 800, "copies", tmp_path / "v.npy")
    truth = GroundTruth.of_vectors(data, queries(source(400)))
    assert overlap(name, data, truth, tmp_path / "engine", k) > 0.8


def test_engines_whose_library_is_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bm25sEngine, "library", "no_such_library")
    found, missing = find(["columns", "bm25s"])
    how = "no_such_library is not installed: pip install 'visualsparta[bench]'"
    assert [*found] == ["columns"] and missing == {"bm25s": how}
