"""Explaining many images at once, against the reference that explains one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.query.query import Query
from indexer.search.api import Explanation, UnknownImageError
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from tests.indexer.search.queries import VOCABULARY
from tests.reference.searcher import ReferenceSearcher


@pytest.fixture(scope="module", params=[LuceneSearcher, ColumnSearcher])
def searcher(request: pytest.FixtureRequest, index: Path) -> Iterator[LuceneSearcher]:
    searcher = request.param(index)
    yield searcher
    searcher.close()


def same(found: list[Explanation], right: list[Explanation]) -> bool:
    """Whether two explanations are equal; a packed box is rounded to 1/65535."""
    for mine, theirs in zip(found, right, strict=True):
        assert mine.image_id == theirs.image_id
        assert mine.score == theirs.score
        for term, other in zip(mine.terms, theirs.terms, strict=True):
            box = other.box and pytest.approx(other.box, abs=1e-5)
            assert term.box == box
            other.box = term.box
            assert term == other
    return True


@settings(max_examples=100)
@given(
    words=st.lists(st.sampled_from(VOCABULARY), max_size=60),
    images=st.lists(st.integers(0, 299), max_size=40),
    substitute=st.booleans(),
)
def test_many_images_as_the_reference_explains_each(
    searcher: LuceneSearcher,
    exact: ReferenceSearcher,
    words: list[str],
    images: list[int],
    substitute: bool,
) -> None:
    query, ids = " ".join(words), [f"a/{image:05d} é.jpg" for image in images]
    found = searcher.explain_all(query, ids, substitute=substitute)
    assert same(found, exact.explain_all(query, ids, substitute=substitute))


def test_terms_with_counts(searcher: LuceneSearcher, exact: ReferenceSearcher) -> None:
    found = searcher.similar("a/00007 é.jpg", 50)
    ids = [hit.image_id for hit in found.hits]
    explained = searcher.explain_all(found.terms, ids)
    assert same(explained, exact.explain_all(found.terms, ids))
    assert [one.score for one in explained] == [hit.score for hit in found.hits]


def test_an_unknown_image_among_others(searcher: LuceneSearcher) -> None:
    with pytest.raises(UnknownImageError, match="absent"):
        searcher.explain_all("dog", ["a/00007 é.jpg", "absent.jpg"])


def test_the_query_is_read_once_for_all_images(
    searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = Mock(wraps=searcher._reader.words)
    monkeypatch.setattr(searcher._reader, "words", words)
    searcher.explain_all("dog beach", [f"a/{image:05d} é.jpg" for image in range(200)])
    words.assert_called_once_with(Query.plain("dog beach"), True)


def test_groundings_are_read_once_for_all_images(
    searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Mock(wraps=searcher.index.packed_groundings)
    monkeypatch.setattr(searcher.index, "packed_groundings", read)
    searcher.explain_all("dog beach", [f"a/{image:05d} é.jpg" for image in range(200)])
    read.assert_called_once()


def test_a_damaged_grounding_is_one_line(
    searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searcher.index, "packed_groundings", lambda _: [b"\x09" * 20])
    for call in (searcher.similar, lambda image: searcher.explain("dog", image)):
        with pytest.raises(InputError, match=r"lucene is damaged \(a grounding .*build the index"):
            call("a/00007 é.jpg")


def test_warming_up_explains_too(searcher: LuceneSearcher, monkeypatch: pytest.MonkeyPatch) -> None:
    explain = Mock(wraps=searcher.explain_all)
    monkeypatch.setattr(searcher, "explain_all", explain)
    searcher.warm_up()
    searcher.prepare_explaining()
    give_up = time.monotonic() + 60
    while explain.call_count < 2 and time.monotonic() < give_up:
        time.sleep(0.01)  # columns explain in a thread, which starts Java
    assert explain.call_count > 1
