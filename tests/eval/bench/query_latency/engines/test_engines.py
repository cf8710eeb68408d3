"""Every engine against the right answers, on collections where many images tie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.bench.query_latency.collections.dense_vectors import enlarge_vectors
from eval.bench.query_latency.engines.base import Engine, Promise
from eval.bench.query_latency.engines.registry import DENSE, ENGINES, SPARSE, VIEWS, find
from eval.bench.query_latency.ground_truth import GroundTruth
from sparta.errors import InputError
from tests.eval.bench.query_latency.tiny import EXACT, corpus, dense, queries, source


def make(name: str, data: object, folder: Path) -> Engine[Any]:
    engine = find([name])[0][name](data, folder)
    folder.mkdir()
    engine.build()
    engine.open()
    return engine


def overlap(name: str, data: object, truth: GroundTruth, folder: Path, k: int) -> float:
    engine = make(name, data, folder)
    asked = queries(source(400))
    found = truth.check(name, engine.promise, [engine.search(query, k) for query in asked], k)
    assert engine.memory_bytes() > 0
    engine.close()
    return found


@pytest.mark.parametrize("name", [*SPARSE])
@pytest.mark.parametrize("k", [1, 10, 1000])
def test_sparse_engines(tmp_path: Path, name: str, k: int) -> None:
    data = corpus(tmp_path / "corpus", source(400))
    truth = GroundTruth.of_impacts(data, queries(source(400)))
    found = overlap(name, data, truth, tmp_path / "engine", k)
    assert (name in EXACT) == (find([name])[0][name].promise is not Promise.NEAR)
    assert found == 1 if name in EXACT else found > 0.7


@pytest.mark.parametrize("name", [*DENSE, *VIEWS])
@pytest.mark.parametrize("k", [1, 10])
def test_dense_engines(tmp_path: Path, name: str, k: int) -> None:
    vectors = dense("v", 20, views=3 if name in VIEWS else 1)
    data = enlarge_vectors(vectors, 800, "copies", tmp_path / "v.npy")
    truth = GroundTruth.of_vectors(data, queries(source(400)))
    assert overlap(name, data, truth, tmp_path / "engine", k) > 0.8


def test_an_index_of_many_bits(tmp_path: Path) -> None:
    data = corpus(tmp_path / "corpus", source(300, bits=12))
    truth = GroundTruth.of_impacts(data, queries(source(400)))
    for name in EXACT:
        assert overlap(name, data, truth, tmp_path / name, 10) == 1


def test_engines_whose_library_is_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "bm25s", "no_such:Bm25sEngine")
    monkeypatch.setattr("eval.bench.query_latency.engines.registry.OURS", ())
    found, missing = find(["columns", "bm25s"])
    assert [*found] == ["columns"] and "is not installed" in missing["bm25s"]


def test_a_module_of_ours_that_is_missing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENGINES, "bm25s", "no_such:Bm25sEngine")
    with pytest.raises(ImportError):
        find(["bm25s"])


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(InputError, match=r"'lucy' is not one of: lucene, columns"):
        find(["lucene", "lucy"])


def test_vectors_are_enlarged_as_images_are(tmp_path: Path) -> None:
    vectors = dense("v", 5, views=2)
    copies = enlarge_vectors(vectors, 2500, "copies", tmp_path / "a.npy").open()
    again = enlarge_vectors(vectors, 2500, "copies", tmp_path / "b.npy").open()
    mixed = enlarge_vectors(vectors, 2500, "mixed", tmp_path / "c.npy").open()
    np.testing.assert_array_equal(copies, again)
    for made, nearness in ((copies, 0.989), (mixed, 0.7)):
        np.testing.assert_allclose(np.linalg.norm(made, axis=-1), 1, atol=1e-5)
        nearest = (made[:, 0] @ vectors.images[:, 0].T).max(axis=1)
        assert np.median(nearest) == pytest.approx(nearness, abs=0.05)
