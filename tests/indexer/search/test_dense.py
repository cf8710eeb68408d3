"""Dense searchers over plain arrays: order, ties, views, timings; FAISS."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.dense.vectors import ImageVectors, VectorIndexKind
from indexer.search.api import Explainer, Searcher, UnknownImageError
from indexer.search.dense import DenseSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from sparta.errors import InputError
from tests.indexer.dense_parts import LetterEncoder, Vectors, random_vectors

IMAGES = 300  # as the index fixture has


def searcher(
    index: Path,
    vectors: Vectors,
    encoder: LetterEncoder,
    kind: VectorIndexKind = "flat",
) -> DenseSearcher:
    made = ImageVectors.create(8, vectors.shape[1], kind)
    made.add(vectors)
    return DenseSearcher(open_index(index).images, made, encoder)


def slow_answer(ids: list[str], scores: Vectors, k: int) -> list[tuple[int, str, float]]:
    order = sorted(range(len(ids)), key=lambda image: (-scores[image], ids[image]))[:k]
    return [(rank, ids[image], float(scores[image])) for rank, image in enumerate(order, start=1)]


@pytest.fixture
def ids() -> list[str]:
    return [f"a/{i:05d} é.jpg" for i in range(IMAGES)]


@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_hits_are_a_matrix_products_ranking(
    index: Path, ids: list[str], views: int, kind: VectorIndexKind
) -> None:
    vectors, encoder = random_vectors(IMAGES, views), LetterEncoder()
    found: Searcher = searcher(index, vectors, encoder, kind)
    for query in ["abc", "hhh e", "dad fed a bag", "zzz"]:
        scores = (vectors @ encoder.encode(query)).max(axis=1)
        assert len(set(scores.tolist())) < 100  # ties all over
        for k in (1, 10, 299, 300, 1000) if kind == "flat" else (300, 1000):
            hits = found.search(query, k).hits
            assert [(h.rank, h.image_id, h.score) for h in hits] == slow_answer(ids, scores, k)
            for hit in hits:
                row = vectors[ids.index(hit.image_id)] @ encoder.encode(query)
                assert hit.view == (None if views == 1 else row.argmax())
                assert hit.metadata == {"width": ids.index(hit.image_id)}
    found.close()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("images", [0, 1, 40, 299])
def test_the_images_allowed_are_ranked_exactly(
    index: Path, ids: list[str], kind: VectorIndexKind, images: int
) -> None:
    vectors, encoder = random_vectors(IMAGES, 3), LetterEncoder()
    found = searcher(index, vectors, encoder, kind)
    allowed = np.random.default_rng(images).permutation(IMAGES) < images
    scores = (vectors @ encoder.encode("dad fed")).max(axis=1)
    scores[~allowed] = -np.inf
    hits = found.search("dad fed", 30, allowed=allowed).hits
    right = slow_answer(ids, scores, min(images, 30))
    assert [(h.rank, h.image_id, h.score) for h in hits] == right
    near = found.similar(ids[0], 30, allowed=allowed).hits
    assert len(near) == min(30, images - bool(allowed[0]))
    assert all(allowed[ids.index(hit.image_id)] for hit in near)
    found.close()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("views", [1, 3])
def test_like_an_image_are_the_nearest_vectors(
    index: Path, ids: list[str], views: int, kind: VectorIndexKind
) -> None:
    """Exact in a graph too; of several views the most alike pair counts."""
    vectors = random_vectors(IMAGES, views)
    found = searcher(index, vectors, LetterEncoder(), kind)
    for image in (0, 123, 299):
        scores = np.einsum("ivd,wd->ivw", vectors, vectors[image]).max(axis=(1, 2))
        others = [*ids[:image], *ids[image + 1 :]]
        for k in (1, 10, 299, 300):
            result = found.similar(ids[image], k)
            hits = [(h.rank, h.image_id, h.score) for h in result.hits]
            assert hits == slow_answer(others, np.delete(scores, image), k)
        assert (result.terms, result.unknown, result.hits[0].view) == ({}, [], None)
        assert result.hits[0].metadata == {"width": ids.index(result.hits[0].image_id)}
    found.close()


def test_encoding_is_timed_apart_from_searching(index: Path) -> None:
    found = searcher(index, random_vectors(IMAGES, 1), LetterEncoder(seconds=0.05))
    timings = found.search("abc").timings
    assert timings.encode_ms >= 50 > timings.search_ms > 0
    parts = timings.tokenise_ms + timings.encode_ms + timings.search_ms
    assert timings.total_ms == pytest.approx(parts, abs=0.01)
    sparse = LuceneSearcher(index)
    assert sparse.search("dog").timings.encode_ms == 0
    sparse.close()
    assert found.search("abc stu 111").unknown == ["stu", "111"]
    found.close()


def test_what_is_known_of_images_and_what_not(index: Path) -> None:
    found: Searcher = searcher(index, random_vectors(IMAGES, 1), LetterEncoder())
    assert len(found) == IMAGES
    assert not isinstance(found, Explainer)
    assert found.metadata("a/00007 é.jpg") == {"width": 7}
    with pytest.raises(UnknownImageError):
        found.metadata("a/7.jpg")
    with pytest.raises(UnknownImageError):
        found.similar("a/7.jpg")
    with pytest.raises(ValueError, match="k must be at least 1"):
        found.search("abc", 0)
    with pytest.raises(ValueError, match="k must be at least 1"):
        found.similar("a/00007 é.jpg", 0)
    found.close()


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
