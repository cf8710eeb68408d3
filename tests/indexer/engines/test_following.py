"""Searchers and what is written meanwhile: commits that they follow, and pages over them."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from indexer.care.combine import merge_segments, split_index
from indexer.engines.open import open_index
from indexer.postings import ImagePostings, Postings
from indexer.search.answer import Answer
from indexer.search.searcher import Searcher
from indexer.store.changes import Add, Change, Delete
from indexer.store.commit import ReplacedError
from indexer.update.writer import open_writer
from tests.indexer.live_index import LiveReference, assert_same
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.search.queries import answer
from tests.indexer.vocabulary import COMMON, TOKENIZER


@pytest.fixture(params=["whole", "shards"])
def own(request: pytest.FixtureRequest, built: Path) -> Path:
    """A small index of one's own, or the same in shards."""
    if request.param == "whole":
        return built
    split_index(built, built.with_name("shards"), 2)
    return built.with_name("shards")


def write(folder: Path, *changes: Change) -> None:
    with open_writer(folder) as writer:
        writer.write(changes)


def added(number: int) -> Add:
    [image] = random_postings(TOKENIZER, 1, seed=100 + number)
    return Add(replace(image, image_id=f"m/{number:03}"))


def ids(found: Answer) -> list[str]:
    return [hit.image_id for hit in found.hits]


def test_an_index_in_the_place_of_another_does_not_continue_it(
    built: Path, tmp_path: Path, make_index: MakeIndex
) -> None:
    searcher = open_index(built)
    other = make_index(tmp_path / "other", random_postings(TOKENIZER, 5, seed=3))
    shutil.rmtree(built)
    shutil.move(other, built)
    write(built, added(1))
    with pytest.raises(ReplacedError):
        searcher.continued()
    newer = searcher.refreshed()
    assert newer is not None and newer.ids() == open_index(built).ids()


def test_an_index_without_images_is_searched(own: Path, small: Postings) -> None:
    write(own, *map(Delete, small.ids))
    searcher = open_index(own)
    assert len(searcher) == 0 and searcher.ids() == []
    for found in (searcher.search(COMMON), searcher.search(""), searcher.search(f"+{COMMON} dog")):
        assert found.hits == [] and found.last is None
    assert searcher.search(f"{COMMON} qqq").unknown == [COMMON, "qqq"]
    assert searcher.complete("do") == []
    searcher.warm_up()


def next_page(searcher: Searcher, page: Answer | None, sort: str | None) -> Answer:
    return searcher.search(COMMON, 3, sort=sort, after=page.last if page else None)


@pytest.mark.parametrize("sort", [None, "path", "-path"])
def test_pages_miss_and_repeat_no_image_that_stays(
    own: Path, small: Postings, sort: str | None
) -> None:
    """Before each page a page's images are deleted, images added, and the newest commit taken."""
    searcher = open_index(own)
    stay = set(ids(searcher.search(COMMON, 100)))
    page, seen = next_page(searcher, None, sort), []
    number = 0
    while page.hits:
        seen += ids(page)
        gone = page.hits[-1].image_id  # at which the next page begins
        new = [added(number), added(number + 1)] if number < 20 else []
        write(own, Delete(gone), *new)
        stay.discard(gone)
        number += 2
        searcher = searcher.refreshed() or searcher
        page = next_page(searcher, page, sort)
        assert number < 60
    assert stay <= set(seen)
    assert len(seen) == len(set(seen))


def test_lucene_answers_from_its_own_commit_until_a_merge(
    built: Path, small: Postings, right: LiveReference
) -> None:
    pytest.importorskip("jnius", reason="extra [lucene] is not installed")
    before = right.searcher()
    with closing(open_index(built, "lucene")) as searcher:
        changes: list[Change] = [added(1), Delete(small.ids[3]), Add(renamed(small, 5))]
        write(built, *changes)
        right.apply(changes)
        assert searcher.refreshed() is None
        assert_same(searcher, before)
        with closing(open_index(built, "lucene")) as again:
            assert_same(again, before)
        merge_segments(built)
        newer = searcher.refreshed()
        assert newer is not None
        with closing(newer):
            assert_same(newer, right.searcher())
    assert answer(open_index(built).search(COMMON, 50)) == answer(
        right.searcher().search(COMMON, 50)
    )


def renamed(postings: Postings, number: int) -> ImagePostings:
    return replace(next(iter(postings)), image_id=postings.ids[number])
