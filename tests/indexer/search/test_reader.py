"""Queries read, weights and shares by hand, and explanations whose winners are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.commands.search import won_by
from indexer.engines.open import open_index
from indexer.grounding import WinningLabel
from indexer.postings import Postings
from indexer.query import Query, QueryError
from indexer.search import reader as module
from indexer.search.reader import COUNTS, LARGEST_SCORE, image_query
from indexer.search.searcher import Explain, Searcher
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from tests.indexer.labelled import LEFT, RIGHT, WHOLE, labelled_index
from tests.indexer.random_postings import SETTINGS, write_postings
from tests.indexer.search.queries import answer
from tests.indexer.vocabulary import TOKENIZER

# ---- queries by image ----------------------------------------------------------------------------


def test_queries_by_image_done_by_hand() -> None:
    assert image_query({1: 200, 2: 100, 3: 100}) == {1: 128, 2: 64, 3: 64}
    assert image_query({1: 10, 2: 200, 3: 100, 4: 100}) == {2: 124, 3: 62, 4: 62, 1: 6}
    assert image_query({1: 1, 2: 65_535}) == {2: 255}
    assert image_query({}) == {}
    equal = image_query(dict.fromkeys(range(20), 7))
    assert list(equal) == [*range(10)]  # ten terms, of equals the first
    both = image_query({1: 100, 2: 200, 3: 100}, {4: 2, 3: 1})
    assert both == {4: 85, 3: 32 + 42, 2: 64, 1: 32}
    assert list(both) == [4, 3, 2, 1]


@given(st.lists(st.integers(1, 65_535), max_size=60), st.lists(st.integers(1, 100), max_size=60))
def test_scores_of_queries_by_image_are_exact(impacts: list[int], words: list[int]) -> None:
    query = image_query(dict(enumerate(impacts)), dict(enumerate(words, 30)))
    assert sum(query.values()) <= COUNTS
    assert min(query.values(), default=1) >= 1
    assert COUNTS * (2**16 - 1) < LARGEST_SCORE


# ---- texts ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searcher(index: Path) -> Searcher:
    return open_index(index)


def test_weights_beyond_exact_sums_are_refused(postings: Postings, tmp_path: Path) -> None:
    write_postings(tmp_path / "index", [postings], TOKENIZER, replace(SETTINGS, bits=16))
    searcher = open_index(tmp_path / "index")
    assert searcher.search("dog^100 cat^100 ball^56").hits
    with pytest.raises(QueryError, match=r"column 1: the weights add up to more than 256"):
        searcher.search("dog^100 cat^100 ball^57")
    assert searcher.search(" ".join(["dog"] * 300)).hits


def test_a_plain_query_has_no_conditions(searcher: Searcher) -> None:
    found = searcher.search(Query.plain('a -dog "red ball"'))
    assert found.conditions == []
    assert answer(found) == answer(searcher.search(r"a \-dog red ball"))


def test_a_full_cache_is_emptied(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHED", 2)
    searcher = open_index(index)
    texts = ("dog cat ball sky", "cat beach dog", "two dogs running")
    right = [answer(searcher.search(text)) for text in texts]
    assert [answer(searcher.search(text)) for text in texts] == right


# ---- explanations --------------------------------------------------------------------------------


def test_damaged_groundings_are_one_line(
    searcher: Searcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(_: Snapshot, documents: Any) -> list[bytes]:
        return [b"\x09" * 20 for _ in documents]

    monkeypatch.setattr(Snapshot, "groundings", damaged)
    with pytest.raises(InputError, match=r"grounding of an image is damaged \(.*build the"):
        searcher.search("dog", explain=Explain())
    assert searcher.search("dog", explain=Explain(grounded=False)).hits[0].explanation


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Searcher:
    index, _, _ = labelled_index(tmp_path_factory.mktemp("labelled"))
    return open_index(index)


@pytest.mark.parametrize(
    ("term", "image_id", "region", "box", "label", "words"),
    [
        ("dog", "a.png", 0, LEFT, ("dog", "brown dog"), "label “dog” in “brown dog”, region 0"),
        ("brown", "a.png", 0, LEFT, ("brown", "brown dog"), None),
        ("cat", "a.png", 1, RIGHT, ("cat", "cat"), "label “cat”, region 1"),
        ("ball", "a.png", 1, RIGHT, None, "region 1"),
        ("tree", "a.png", 2, WHOLE, None, "whole photo"),
        ("ball", "b.png", 0, LEFT, None, "region 0"),
        ("red", "b.png", 1, RIGHT, ("red", "red ball"), None),
        ("man", "c.png", 0, LEFT, ("man", "man"), None),
        ("dog", "c.png", None, None, None, ""),
    ],
)
def test_region_or_label_that_won(
    labelled: Searcher,
    term: str,
    image_id: str,
    region: int | None,
    box: tuple[float, ...] | None,
    label: tuple[str, str] | None,
    words: str | None,
) -> None:
    [found] = labelled.explain(term, image_id).terms
    assert (found.region, found.label) == (region, label and WinningLabel(*label))
    assert (found.impact > 0) == (region is not None)
    assert found.box == (None if box is None else pytest.approx(box, abs=1e-4))
    assert found.whole == (box == WHOLE)
    assert words is None or won_by(found) == words
