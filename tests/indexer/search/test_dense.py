"""Dense searchers over plain arrays: order, ties, views, timings, the mean of several."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.dense.vectors import ImageVectors, VectorIndexKind
from indexer.lucene.reader import LuceneIndex
from indexer.search.api import Explainer, Searcher, UnknownImageError
from indexer.search.dense import DenseSearcher, EnsembleSearcher
from indexer.search.lucene import LuceneSearcher

IMAGES = 300  # as the index fixture has


class CountingEncoder:
    """Embeds a text as how often it holds each of eight letters; slow on purpose."""

    def __init__(self, letters: str = "abcdefgh", seconds: float = 0.0) -> None:
        self.letters, self.seconds = letters, seconds

    def encode(self, text: str) -> NDArray[np.float32]:
        time.sleep(self.seconds)
        return np.array([text.count(letter) for letter in self.letters], np.float32)

    def unknown(self, text: str) -> list[str]:
        return [word for word in text.split() if not set(word) & set(self.letters)]


def array(views: int, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    return random.integers(-2, 3, (IMAGES, views, 8)).astype(np.float32)


def searcher(
    index: Path,
    vectors: NDArray[np.float32],
    encoder: CountingEncoder,
    kind: VectorIndexKind = "flat",
) -> DenseSearcher:
    made = ImageVectors.create(8, vectors.shape[1], kind)
    made.add(vectors)
    return DenseSearcher(LuceneIndex(index / "lucene"), made, encoder)


def slow_answer(
    ids: list[str], scores: NDArray[np.float32], k: int
) -> list[tuple[int, str, float]]:
    order = sorted(range(len(ids)), key=lambda image: (-scores[image], ids[image]))[:k]
    return [(rank, ids[image], float(scores[image])) for rank, image in enumerate(order, start=1)]


@pytest.fixture
def ids() -> list[str]:
    return [f"a/{i:05d} é.jpg" for i in range(IMAGES)]


@pytest.mark.parametrize("views", [1, 3])
@pytest.mark.parametrize("k", [1, 10, 299, 300, 1000])
def test_hits_are_a_matrix_products_ranking(
    index: Path, ids: list[str], views: int, k: int
) -> None:
    vectors, encoder = array(views), CountingEncoder()
    found: Searcher = searcher(index, vectors, encoder)
    for query in ["abc", "hhh e", "dad fed a bag", "zzz"]:
        scores = (vectors @ encoder.encode(query)).max(axis=1)
        assert len(set(scores.tolist())) < 100
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
    vectors, encoder = array(3), CountingEncoder()
    found = searcher(index, vectors, encoder, kind)
    allowed = np.random.default_rng(images).permutation(IMAGES) < images
    scores = (vectors @ encoder.encode("dad fed")).max(axis=1)
    scores[~allowed] = -np.inf
    hits = found.search("dad fed", 30, allowed=allowed).hits
    right = slow_answer(ids, scores, min(images, 30))
    assert [(h.rank, h.image_id, h.score) for h in hits] == right
    both = EnsembleSearcher([found, found])
    assert both.search("dad fed", 30, allowed=allowed).hits == [replace(h, view=None) for h in hits]
    near = found.similar(ids[0], 30, allowed=allowed).hits
    assert len(near) == min(30, images - bool(allowed[0]))
    assert all(allowed[ids.index(hit.image_id)] for hit in near)
    found.close()


@pytest.mark.parametrize("kinds", [("flat", "flat"), ("hnsw", "flat"), ("hnsw", "hnsw")])
def test_the_ensemble_is_the_mean_of_its_members(
    index: Path, ids: list[str], kinds: tuple[VectorIndexKind, VectorIndexKind]
) -> None:
    one, two = CountingEncoder(), CountingEncoder("stuvwxyz")
    first, second = array(1), array(3, seed=1)
    members = [searcher(index, first, one, kinds[0]), searcher(index, second, two, kinds[1])]
    ensemble: Searcher = EnsembleSearcher(members)
    for query in ["abcz", "st ab", "111"]:
        scores = (
            (first @ one.encode(query)).max(axis=1) + (second @ two.encode(query)).max(axis=1)
        ) / 2
        for k in (1, 40, 300, 301):
            hits = ensemble.search(query, k).hits
            assert [(h.rank, h.image_id, h.score) for h in hits] == slow_answer(ids, scores, k)
            assert {hit.view for hit in hits} == {None}
    assert ensemble.search("abc stu 111 222").unknown == ["111", "222"]
    assert members[0].search("abc stu 111").unknown == ["stu", "111"]
    ensemble.close()


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
@pytest.mark.parametrize("views", [1, 3])
def test_like_an_image_are_the_nearest_vectors(
    index: Path, ids: list[str], views: int, kind: VectorIndexKind
) -> None:
    """Exact in a graph too; of several views the most alike pair counts."""
    vectors = array(views)
    one = searcher(index, vectors, CountingEncoder(), kind)
    both: Searcher = EnsembleSearcher([one, searcher(index, array(1, seed=1), CountingEncoder())])
    for image in (0, 123, 299):
        own = np.einsum("ivd,wd->ivw", vectors, vectors[image]).max(axis=(1, 2))
        mean = (own + (array(1, seed=1) @ array(1, seed=1)[image, 0])[:, 0]) / 2
        for found, scores in ((one, own), (both, mean)):
            others = [*ids[:image], *ids[image + 1 :]]
            for k in (1, 10, 299, 300):
                result = found.similar(ids[image], k)
                hits = [(h.rank, h.image_id, h.score) for h in result.hits]
                assert hits == slow_answer(others, np.delete(scores, image), k)
            assert (result.terms, result.unknown, result.hits[0].view) == ({}, [], None)
            assert result.hits[0].metadata == {"width": ids.index(result.hits[0].image_id)}


def test_encoding_is_timed_apart_from_searching(index: Path) -> None:
    found = searcher(index, array(1), CountingEncoder(seconds=0.05))
    timings = found.search("abc").timings
    assert timings.encode_ms >= 50 > timings.search_ms > 0
    parts = timings.tokenise_ms + timings.encode_ms + timings.search_ms
    assert timings.total_ms == pytest.approx(parts, abs=0.01)
    twice = EnsembleSearcher([found, found]).search("abc").timings
    assert twice.encode_ms >= 100 > twice.search_ms
    sparse = LuceneSearcher(index)
    assert sparse.search("dog").timings.encode_ms == 0
    sparse.close()
    found.close()


def test_what_is_known_of_images_and_what_not(index: Path) -> None:
    found: Searcher = searcher(index, array(1), CountingEncoder())
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
