"""Searches in shards give the answers of one index, to the last tie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.care.combine import split_index
from indexer.filters.text import parse_filter
from indexer.postings import Postings
from indexer.search.api import SearchResult, SimilarResult
from indexer.search.browsing import Browsed, Page
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index, open_searcher
from indexer.search.paging import Position, page_after
from indexer.search.sharded.open import LocalSearcher
from indexer.shards import index_folders, owner
from indexer.store.changes import Change, Delete
from indexer.update.writer import open_writer
from sparta.word_tables import Substitute
from tests.indexer.random_postings import random_postings, word_tables, write_postings
from tests.indexer.search.queries import VOCABULARY, answer
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import ReferenceSearcher

SELDOM = {"cat", "##s", "red"}
IMAGES = 60
COLOURS = ("red", "green", "blue")
FILTERS = (
    "colour:red",
    "stars:>2 -colour:green",
    "taken:2024-02..2024-03",
    "colour:none",
    "stars:1",
)
FACETS = ("colour", "stars", "taken:month", "path")
ORDERS = (None, "stars", "-stars", "colour", "-colour", "-taken", "path")

Either = LuceneSearcher | LocalSearcher
Pair = tuple[Either, Either]


def described(postings: Postings) -> Postings:
    """With fields, some of which few images have."""
    metadata: list[dict[str, Any]] = []
    for number in range(len(postings)):
        fields: dict[str, Any] = {"width": number, "stars": number % 5}
        if number % 3:
            fields |= {"colour": COLOURS[number % 7 % 3], "taken": f"2024-{1 + number % 5:02}-03"}
        if number == 7:
            fields["rare"] = "here alone"
        metadata.append(fields)
    return replace(postings, metadata=metadata)


@pytest.fixture(scope="module")
def images() -> Postings:
    return described(random_postings(TOKENIZER, IMAGES, seed=5))


@pytest.fixture(scope="module")
def exact(images: Postings) -> ReferenceSearcher:
    return ReferenceSearcher(images, TOKENIZER, {"zebra": [("cat", 0.7), ("dog", 0.6)]}, SELDOM)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, images: Postings) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "index"
    tables = word_tables({"zebra": (Substitute("cat", 0.7), Substitute("dog", 0.6))}, SELDOM)
    write_postings(folder, [images], TOKENIZER, tables=tables)
    return folder


def write(folder: Path, changes: Sequence[Change]) -> None:
    """Write changes to an index, divided or not."""
    folders = index_folders(folder)
    for number, one in enumerate(folders):
        own = [change for change in changes if owner(change.image_id, len(folders)) == number]
        with open_writer(one) as writer:
            writer.write(own)


@pytest.fixture(scope="module", params=[1, 2, 3, 5])
def divided(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, whole: Path
) -> Path:
    folder = tmp_path_factory.mktemp("shards") / "index"
    split_index(whole, folder, request.param)
    return folder


@pytest.fixture(scope="module")
def pair(whole: Path, divided: Path) -> Iterator[Pair]:
    with closing(open_index(whole)) as one, closing(open_searcher(divided)) as several:
        yield one, several


@pytest.fixture(scope="module")
def deleted_pair(
    tmp_path_factory: pytest.TempPathFactory, images: Postings, whole: Path
) -> Iterator[Pair]:
    """Many images of both deleted, among them the strongest for some terms."""
    folder = tmp_path_factory.mktemp("deleted")
    write_postings(folder / "whole", [images], TOKENIZER)
    split_index(folder / "whole", folder / "divided", 3)
    gone = [Delete(image_id) for number, image_id in enumerate(images.ids) if number % 3 == 1]
    write(folder / "whole", gone)
    write(folder / "divided", gone)
    with (
        closing(open_index(folder / "whole")) as one,
        closing(open_searcher(folder / "divided")) as several,
    ):
        yield one, several


def assert_same(mine: SearchResult, right: SearchResult) -> None:
    assert mine.hits == right.hits
    assert (mine.unknown, mine.substitutions) == (right.unknown, right.substitutions)
    assert (mine.rare, mine.conditions) == (right.rare, right.conditions)
    if isinstance(mine, SimilarResult):
        assert isinstance(right, SimilarResult)
        assert list(mine.terms.items()) == list(right.terms.items())


def assert_same_page(mine: Browsed, right: Browsed) -> None:
    assert_same(mine.result, right.result)
    assert (mine.total, mine.facets, mine.last) == (right.total, right.facets, right.last)


texts = st.lists(
    st.tuples(st.sampled_from(["", "", "", "+", "-"]), st.sampled_from([*VOCABULARY, "zebra"])),
    min_size=1,
    max_size=5,
).map(lambda words: " ".join(["the", *(sign + word for sign, word in words)]))
ks = st.sampled_from([1, 3, 10, 200])
filters = st.sampled_from([None, None, *FILTERS])
coverages = st.sampled_from([None, None, 0.0, 0.4, 0.9])


def both(pair: Pair, text: str | None) -> list[Any]:
    """What a filter lets through of each."""
    if text is None:
        return [None, None]
    return [searcher.field_index().allowed(parse_filter(text)) for searcher in pair]


@settings(max_examples=60)
@given(query=texts, k=ks, filter=filters, coverage=coverages, substitute=st.booleans())
def test_searching_shards_gives_the_answers_of_one_index(
    pair: Pair, query: str, k: int, filter: str | None, coverage: float | None, substitute: bool
) -> None:
    check_search(pair, query, k, filter, coverage, substitute)


@settings(max_examples=60)
@given(query=texts, k=ks, filter=filters, coverage=coverages)
def test_searching_shards_among_what_is_left_gives_the_answers_of_one_index(
    deleted_pair: Pair, query: str, k: int, filter: str | None, coverage: float | None
) -> None:
    check_search(deleted_pair, query, k, filter, coverage, True)


def check_search(
    pair: Pair, query: str, k: int, filter: str | None, coverage: float | None, substitute: bool
) -> None:
    found = [
        searcher.search(query, k, substitute=substitute, allowed=allowed, min_coverage=coverage)
        for searcher, allowed in zip(pair, both(pair, filter), strict=True)
    ]
    assert_same(found[1], found[0])
    ids = [hit.image_id for hit in found[0].hits[:20]]
    explained = [one.explain_all(query, ids, substitute=substitute) for one in pair]
    assert explained[1] == explained[0]


@settings(max_examples=30)
@given(
    words=st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=6),
    k=ks,
)
def test_searches_as_the_reference_scorer(
    pair: Pair, exact: ReferenceSearcher, words: list[str], k: int
) -> None:
    query = " ".join(words)
    found, right = pair[1].search(query, k), exact.search(query, k)
    assert answer(found) == answer(right)


@settings(max_examples=40)
@given(
    query=st.one_of(st.just(""), texts),
    page=st.builds(
        Page,
        st.sampled_from([1, 5, 100]),
        st.sampled_from([0, 3, 70]),
        st.sampled_from(ORDERS),
        st.lists(st.sampled_from(FACETS), max_size=2, unique=True),
    ),
    filter=filters,
    coverage=coverages,
)
def test_browsing_shards_gives_the_pages_of_one_index(
    pair: Pair, query: str, page: Page, filter: str | None, coverage: float | None
) -> None:
    for _ in range(3):  # pages that follow one another
        found = [
            searcher.browse(query, page, allowed=allowed, min_coverage=coverage)
            for searcher, allowed in zip(pair, both(pair, filter), strict=True)
        ]
        assert_same_page(found[1], found[0])
        if found[0].last is None:
            break
        page = replace(page, offset=0, after=found[0].last)


@settings(max_examples=40)
@given(
    chosen=st.lists(st.integers(0, IMAGES - 1), min_size=1, max_size=3),
    words=st.sampled_from(["", "dog", "-cat +red", "zebra", "-dog", "qqq cat^3"]),
    k=ks,
    filter=filters,
)
def test_similar_images_of_shards_are_those_of_one_index(
    pair: Pair, images: Postings, chosen: list[int], words: str, k: int, filter: str | None
) -> None:
    ids = [images.ids[number] for number in chosen]
    found = [
        searcher.similar(ids, k, words=words, allowed=allowed)
        for searcher, allowed in zip(pair, both(pair, filter), strict=True)
    ]
    assert_same(found[1], found[0])
    terms = {"dog": 3, "zebra": 9, "red": 1}
    found = [one.similar_to(terms, k) for one in pair]
    assert_same(found[1], found[0])
    assert pair[1].explain_all(terms, ids) == pair[0].explain_all(terms, ids)


def test_pages_follow_one_another(pair: Pair) -> None:
    first = pair[0].search("dog cat", 5)
    assert_same(pair[1].search("dog cat", 5), first)
    last = first.hits[-1]
    after = Position(last.score, last.image_id, last.rank)
    pages = [page_after(partial(one.search, "dog cat"), 7, after) for one in pair]
    assert_same(pages[1], pages[0])


def test_words_of_all_shards_are_suggested(pair: Pair, deleted_pair: Pair) -> None:
    for one, several in (pair, deleted_pair):
        for text in ("red d", "c", "zeb", "dgo", "x", "bal"):
            assert several.complete(text, 5) == one.complete(text, 5)
        for word in ("dgo", "beech", "zebre", "qqq"):
            assert several.correct(word) == one.correct(word)
