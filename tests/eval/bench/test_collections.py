"""Collections: what is read out of an index, and what larger ones keep of it; queries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import eval.bench.collections
import eval.bench.corpus
from eval.bench.collections import (
    CHUNK,
    GROUPS,
    CollectionKind,
    enlarge,
    enlarge_index,
    keep_top,
    read_source,
    synthetic_queries,
    synthetic_source,
)
from eval.bench.corpus import Corpus, tokenise
from eval.bench.vectors import enlarge_vectors
from indexer.postings import Postings
from indexer.search.open import open_index
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer
from tests.eval.bench.tiny import dense, rows, source
from tests.indexer.random_postings import random_postings, write_postings

IMAGES = CHUNK + 7
TEXTS = ["dog cat", "", "the red ball", "qqq", "two dogs run dog", "beach ball", "sky"]
LAST = GROUPS[:, 0].astype(int)
GROUP = np.repeat(np.arange(len(GROUPS)), np.diff(LAST, prepend=0))


def images(kind: CollectionKind, top_n: int | None, seed: int = 0) -> Iterator[dict[int, int]]:
    for made in enlarge(source(), IMAGES, top_n, kind, seed):
        for first, last in zip(made.starts, made.starts[1:], strict=False):
            terms, impacts = made.terms[first:last], made.impacts[first:last]
            assert (np.diff(terms) > 0).all()
            yield dict(zip(terms.tolist(), impacts.tolist(), strict=True))


@pytest.mark.parametrize("top_n", [5, None])
def test_a_copy_has_its_image_s_terms_and_nearly_its_impacts(top_n: int | None) -> None:
    kept = keep_top(source().impacts, top_n)
    parents = {tuple(source().terms[row.nonzero()[0]]): row[row > 0] for row in kept}
    factors, made = [], list(images("copies", top_n))
    assert len(made) == IMAGES
    for image in made:
        parent = parents[tuple(image)].astype(float)
        changed = np.array([*image.values()])
        assert changed.min() >= 1 and changed.max() <= 255
        inside = (parent > 40) & (parent < 150)  # neither rounding nor the top level matters
        factors += (changed / parent)[inside].tolist()
    assert np.mean(factors) == pytest.approx(1, abs=0.01)
    assert np.std(factors) == pytest.approx(0.15, abs=0.01)


def test_a_mixed_image_takes_every_term_from_one_of_two_and_keeps_the_largest() -> None:
    rare = source(2)
    first, second = ({*rare.terms[row.nonzero()[0]].tolist()} for row in rare.impacts[:2])
    (rows,) = enlarge(rare, 500, None, "mixed")
    met = set()
    for start, end in zip(rows.starts, rows.starts[1:], strict=False):
        own = {*rows.terms[start:end].tolist()}
        assert own <= first | second
        if own and own not in (first, second):
            met |= {(first - second) & own != set(), (second - first) & own != set()}
            assert first & second <= own or not (first & second)
    assert met == {True, False}
    assert max(len(image) for image in images("mixed", 4)) == 4


def test_mixed_images_keep_the_document_frequencies() -> None:
    made = list(images("mixed", None))
    found = [sum(term in image for image in made) / IMAGES for term in source().terms.tolist()]
    np.testing.assert_allclose(found, (source().impacts > 0).mean(axis=0), atol=0.05)


@pytest.mark.parametrize("kind", ["copies", "mixed", "drawn"])
def test_a_seed_decides(kind: CollectionKind) -> None:
    assert list(images(kind, 5)) == list(images(kind, 5))
    assert list(images(kind, 5)) != list(images(kind, 5, seed=1))


def test_impacts_of_more_bits_use_them() -> None:
    (rows,) = enlarge(source(bits=12), 500, None, "copies")
    assert rows.impacts.max() == 2**12 - 1


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


@pytest.fixture
def postings(tokenizer: WordPieceTokenizer) -> Postings:
    return random_postings(tokenizer, 60)


@pytest.fixture
def index(tmp_path: Path, tokenizer: WordPieceTokenizer, postings: Postings) -> Path:
    write_postings(tmp_path / "index", [postings], tokenizer)
    return tmp_path / "index"


def test_every_impact_is_read(
    index: Path, postings: Postings, tokenizer: WordPieceTokenizer
) -> None:
    source = read_source(index)
    assert source.vocabulary == tokenizer.vocabulary
    assert (source.name, source.bits, source.about["top_n"]) == ("none", 8, "all")
    expected = np.zeros((60, len(tokenizer.vocabulary)), np.uint8)
    for row, image in enumerate(postings):
        expected[row, image.terms] = image.impacts
    found = np.zeros_like(expected)
    found[:, source.terms] = source.impacts
    np.testing.assert_array_equal(found, expected)
    assert source.impacts.any(axis=0).all()


def test_of_many_images_some_are_drawn(
    index: Path, postings: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [row.tolist() for row in read_source(index).impacts]
    monkeypatch.setattr(eval.bench.collections, "LARGEST", 20)
    source = read_source(index)
    drawn = [row.tolist() for row in source.impacts]
    rest = iter(whole)
    assert len(drawn) == 20 == source.about["images"] and drawn != whole[:20]
    assert all(row in rest for row in drawn)  # in the index's order


@pytest.mark.parametrize("bits", [8, 12])
@pytest.mark.parametrize("chunk", [7, 10_000])
def test_rows_come_back_as_they_went_in(
    tmp_path: Path, bits: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eval.bench.corpus, "READ", chunk)
    whole = rows(source(bits=bits))
    Corpus.write(tmp_path, source().vocabulary, bits, [whole, whole])
    opened = Corpus.open(tmp_path)
    assert opened is not None
    assert (opened.images, opened.postings) == (80, 2 * len(whole.terms))
    parts = list(opened.rows())
    assert max(map(len, parts)) == min(chunk, 80)
    for name in ("terms", "impacts"):
        found = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(found, np.tile(getattr(whole, name), 2))
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    np.testing.assert_array_equal(lengths, np.tile(np.diff(whole.starts), 2))


def test_a_collection_without_header_is_not_whole(tmp_path: Path) -> None:
    Corpus.write(tmp_path, source().vocabulary, 8, [rows(source())])
    (tmp_path / "corpus.json").unlink()
    assert Corpus.open(tmp_path) is None


def test_an_enlarged_index_answers_like_its_images(drawings: Path, tmp_path: Path) -> None:
    steps: list[tuple[object, ...]] = []
    enlarge_index(drawings, tmp_path / "large", 40, lambda *step: steps.append(step))
    searcher = open_index(tmp_path / "large")
    assert len(searcher) == 40
    assert steps[-1] == ("write", 40, 40)
    found = searcher.search("blue", 100)
    searcher.close()
    assert 10 < len(found.hits) < 40  # three of the five drawings have something blue
    assert {hit.metadata["width"] for hit in found.hits} == {500}


def by_group(values: np.ndarray) -> np.ndarray:
    return np.bincount(GROUP, values) / np.bincount(GROUP)


def test_document_frequencies_and_impacts_are_those_measured() -> None:
    source = synthetic_source(1000)
    present = source.impacts > 0
    large = np.bincount(GROUP) >= 64
    frequencies = by_group(present.mean(axis=0))
    np.testing.assert_allclose(frequencies[large], GROUPS[large, 2], atol=0.05)
    means = by_group(source.impacts.sum(axis=0)) / by_group(present.sum(axis=0))
    np.testing.assert_allclose(means, GROUPS[:, 4], rtol=0.1)
    assert source.terms[-1] + 1 == len(source.vocabulary) == LAST[-1]


def test_queries_are_as_long_as_captions_and_of_terms_as_frequent() -> None:
    queries = synthetic_queries(2000)
    lengths = [sum(query.terms.values()) for query in queries]
    assert min(lengths) >= 7 and 11.5 < np.mean(lengths) < 12.1
    used = np.zeros(LAST[-1])
    for query in queries:
        assert query.text == query.pieces
        for term, count in query.terms.items():
            used[term] += count
    shares = np.bincount(GROUP, used) / used.sum()
    np.testing.assert_allclose(shares, GROUPS[:, 1] / GROUPS[:, 1].sum(), atol=0.01)


def test_queries_come_in_random_order_without_those_no_term_is_in(
    tokenizer: WordPieceTokenizer,
) -> None:
    found = tokenise(TEXTS, tokenizer, 100)
    known = ["dog cat", "the red ball", "two dogs run dog", "beach ball", "sky"]
    assert sorted(query.text for query in found) == sorted(known)
    assert [query.text for query in found] != known
    assert [query.number for query in found] == list(range(5))
    for query in found:
        parsed = tokenizer.encode_query(query.text)
        named = {tokenizer.vocabulary[term]: count for term, count in query.terms.items()}
        assert named == parsed.terms and query.pieces.split() == parsed.pieces
    assert [query.text for query in tokenise(TEXTS, tokenizer, 2)] == [
        query.text for query in found[:2]
    ]
    with pytest.raises(InputError, match="1 queries with a word of the index"):
        tokenise(["dog", "qqq"], tokenizer, 100)
