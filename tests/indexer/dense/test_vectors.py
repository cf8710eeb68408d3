"""Vectors of images in FAISS: exact scores, ties, graphs, and what cannot be read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.dense.vectors import ImageVectors, VectorIndexKind
from sparta.errors import InputError


def whole_numbers(images: int, views: int, seed: int = 0) -> NDArray[np.float32]:
    """[N, K, 8] of few small whole numbers: sums are exact, so that many scores are equal."""
    random = np.random.default_rng(seed)
    return random.integers(-1, 2, (images, views, 8)).astype(np.float32)


def filled(vectors: NDArray[np.float32], kind: VectorIndexKind = "flat") -> ImageVectors:
    made = ImageVectors.create(vectors.shape[2], vectors.shape[1], kind)
    for start in range(0, len(vectors), 17):
        made.add(vectors[start : start + 17])
    return made


@pytest.mark.parametrize("views", [1, 3])
def test_equal_vectors_tie_whatever_their_numbers_and_places(views: int) -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((300, views, 100)).astype(np.float32)
    twins = np.sort(random.choice(300, 40, replace=False))
    vectors[twins] = vectors[twins[0]]
    query = vectors[twins[0], -1] + random.standard_normal(100).astype(np.float32) * 0.1
    found = filled(vectors).nearest(query, 25)
    assert found.images.tolist() == twins[:25].tolist()
    assert len(set(found.scores.tolist())) == 1


def test_the_graph_finds_nearly_all_at_its_own_exact_scores() -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((2000, 2, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    exact, graph = filled(vectors), filled(vectors, "hnsw")
    shared = 0
    for query in random.standard_normal((20, 32)).astype(np.float32):
        right, found = exact.nearest(query, 10), graph.nearest(query, 10)
        assert len(set(found.images.tolist())) == 10
        assert found.scores == pytest.approx(exact.scores(query)[found.images].max(axis=1))
        assert (np.diff(found.scores) <= 0).all()
        shared += len(set(right.images) & set(found.images))
    assert shared > 0.9 * 200


def test_a_file_that_faiss_cannot_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "vectors").write_bytes(b"nothing of the kind")
    for path in (tmp_path / "vectors", tmp_path / "absent"):
        with pytest.raises(InputError, match=f"{path} cannot be read"):
            ImageVectors.open(path, views=1)


def test_vectors_of_another_shape_or_not_finite_are_refused() -> None:
    made = ImageVectors.create(8, 2)
    broken = whole_numbers(3, 2)
    broken[1, 1, 3] = np.nan
    for wrong in (whole_numbers(3, 1), np.zeros((3, 2, 7), np.float32), broken):
        with pytest.raises(ValueError, match=r"finite vectors \[B, 2, 8\]"):
            made.add(wrong)
    assert len(made) == 0


def test_missing_faiss_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(InputError, match=r"pip install 'visualsparta\[dense\]'"):
        ImageVectors.create(8, 1)
