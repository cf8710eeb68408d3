"""Query by image: the query, both engines against the reference scorer, and the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from indexer.search.columns import ColumnSearcher

from indexer.postings import ImagePostings, Postings
from indexer.search.api import SimilarResult, UnknownImageError
from indexer.search.lucene import LuceneSearcher
from indexer.search.terms.query_by_image import (
    COUNTS,
    TERMS,
    image_query,
    images_and_words,
    repeated_terms,
)
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.search.queries import answer
from tests.indexer.vocabulary import RARE, TOKENIZER
from tests.reference.searcher import ReferenceSearcher


def without_times(result: SimilarResult) -> tuple[object, ...]:
    return answer(result), [hit.metadata for hit in result.hits], result.unknown, result.terms


def test_a_query_done_by_hand() -> None:
    impacts = {"a": 10, "b": 200, "c": 100, "d": 100}
    assert image_query(impacts, 3) == {"b": 128, "c": 64, "d": 64}
    assert list(image_query(impacts, 2)) == ["b", "c"]  # of equals, the first
    assert image_query(impacts, 4) == {"b": 124, "c": 62, "d": 62, "a": 6}
    assert image_query({"a": 1, "b": 65_535}) == {"b": 255}
    assert image_query({}) == {}
    assert repeated_terms({"b": 2, "##s": 1}) == "b b ##s"


def test_words_have_half_of_the_weight() -> None:
    impacts = {"a": 100, "b": 200, "c": 100}
    assert images_and_words(impacts, []) == image_query(impacts)
    query = images_and_words(impacts, ["d", "c", "d"])
    assert query == {"d": 85, "c": 32 + 42, "b": 64, "a": 32}
    assert list(query) == ["d", "c", "b", "a"]
    assert sum(images_and_words(impacts, map(str, range(1000))).values()) <= COUNTS


def test_several_images_and_words(searcher: LuceneSearcher, exact: ReferenceSearcher) -> None:
    ids = ["a/00007 é.jpg", "a/00011 é.jpg"]
    for words in ("", "sky sky ball"):
        found = searcher.similar([*ids, ids[0]], 20, words=words)
        assert without_times(found) == without_times(exact.similar(ids, 20, words=words))
        assert not {*ids} & {hit.image_id for hit in found.hits} and len(found.hits) == 20
        for one in searcher.explain_all(found.terms, [hit.image_id for hit in found.hits]):
            assert one.score == next(h.score for h in found.hits if h.image_id == one.image_id)


def test_similar_images_without_a_word(searcher: LuceneSearcher) -> None:
    ids = ["a/00007 é.jpg"]
    night = searcher.similar(ids[0], 20, words=f"sky^3 -dog qqq {RARE}")
    assert night.terms["sky"] >= 128 and set(night.unknown) == {"qqq", RARE}
    assert [(one.word, one.sign) for one in night.conditions] == [("dog", "-")]
    assert all(
        "-dog" not in searcher.explain("sky -dog", hit.image_id).against for hit in night.hits
    )
    only = searcher.similar(ids[0], 20, words="-dog")
    assert only.terms == searcher.similar(ids[0]).terms


@given(st.lists(st.integers(1, 65_535), max_size=600), st.integers(1, 600))
def test_no_sum_leaves_what_lucene_adds_exactly(impacts: list[int], terms: int) -> None:
    query = image_query({str(i): impact for i, impact in enumerate(impacts)}, terms)
    assert len(query) <= terms and min(query.values(), default=1) >= 1
    assert sum(query.values()) <= COUNTS
    assert COUNTS * (2**16 - 1) < 2**24


@pytest.mark.parametrize("k", [1, 10, 299, 300, 1000])
def test_hits_equal_the_reference(
    searcher: LuceneSearcher, exact: ReferenceSearcher, postings: Postings, k: int
) -> None:
    for image_id in postings.ids[::7]:
        found = searcher.similar(image_id, k)
        assert without_times(found) == without_times(exact.similar(image_id, k))
        assert image_id not in [hit.image_id for hit in found.hits]
        assert 0 < len(found.hits) <= k and 0 < len(found.terms) <= TERMS


def test_an_image_that_is_sent_is_searched_as_if_it_were_indexed(
    searcher: LuceneSearcher, postings: Postings
) -> None:
    for image in list(postings)[::31]:
        terms = [TOKENIZER.vocabulary[number] for number in image.terms]
        impacts = dict(zip(terms, image.impacts.tolist(), strict=True))
        found = searcher.similar_to(impacts, 30)
        near = searcher.similar(image.image_id, 30)
        assert found.terms == near.terms
        others = [(hit.image_id, hit.score) for hit in found.hits if hit.image_id != image.image_id]
        assert others[:29] == [(hit.image_id, hit.score) for hit in near.hits][:29]
        allowed = np.arange(len(searcher)) % 2 == 0
        some = searcher.similar_to(impacts, 300, allowed=allowed).hits
        assert 0 < len(some) <= allowed.sum()
    assert searcher.similar_to({"[PAD]": 9}).hits == []
    with pytest.raises(ValueError, match="k must be at least 1"):
        searcher.similar_to(impacts, 0)


def test_what_cannot_be_asked(
    searcher: LuceneSearcher, exact: ReferenceSearcher, postings: Postings
) -> None:
    for one in (searcher, exact):
        for image_id in ("absent.jpg", "", postings.ids[0] + "\0"):
            with pytest.raises(UnknownImageError):
                one.similar(image_id)
        with pytest.raises(UnknownImageError):
            one.explain_all({"dog": 1}, ["absent.jpg"])
        with pytest.raises(ValueError, match="at least 1"):
            one.similar(postings.ids[0], 0)


def test_twins_and_an_image_without_terms(make_index: MakeIndex, tmp_path: Path) -> None:
    """Two with equal impacts, one stronger in all of them, which comes first for both; one bare."""
    twin, stronger, bare = list(random_postings(TOKENIZER, 3, seed=4))
    terms = np.array([20, 21], np.int32)

    def row(image_id: str, like: ImagePostings, impacts: list[int]) -> ImagePostings:
        n = len(impacts)
        positions = np.full(n, -1, np.int16)
        levels = np.array(impacts, np.int32)
        return ImagePostings(image_id, {}, terms[:n], levels, positions, like.inputs)

    rows = [row("a", twin, [3, 4]), row("b", twin, [3, 4]), row("c", stronger, [9, 9])]
    postings = Postings.of([*rows, row("d", bare, [])])
    folder = make_index(tmp_path / "index", postings)
    for searcher in (LuceneSearcher(folder), ColumnSearcher(folder)):
        assert [hit.image_id for hit in searcher.similar("a", 2).hits] == ["c", "b"]
        assert [hit.image_id for hit in searcher.similar("b", 1).hits] == ["c"]
        assert [hit.image_id for hit in searcher.similar("c").hits] == ["a", "b"]
        nothing = searcher.similar("d")
        assert (nothing.hits, nothing.terms) == ([], {})
        searcher.close()
