"""Pages that follow one another while the index is written to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.postings import ImagePostings, Postings
from indexer.search.api import Hit
from indexer.search.browsing import Page
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.search.paging import Position, page_after
from indexer.update.sharded import Writer
from indexer.update.writer import open_writer
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER

Next = Callable[[LuceneSearcher, Position | None], tuple[list[Hit], Position | None]]


@pytest.fixture(scope="module")
def small() -> Postings:
    return random_postings(TOKENIZER, 40)


@pytest.fixture
def writer(tmp_path: Path, small: Postings, make_index: MakeIndex) -> Iterator[Writer]:
    with open_writer(make_index(tmp_path / "index", small)) as writer:
        stars = [{"stars": number % 3} if number % 4 else {} for number in range(len(small))]
        writer.write(list(map(MetadataChange, small.ids, stars)))
        writer.commit()
        yield writer


def ranked(searcher: LuceneSearcher, after: Position | None) -> tuple[list[Hit], Position | None]:
    search = partial(searcher.search, COMMON)
    hits = search(7).hits if after is None else page_after(search, 7, after).hits
    return hits, Position(hits[-1].score, hits[-1].image_id, hits[-1].rank) if hits else None


def browsed(
    order: str | None, query: str, searcher: LuceneSearcher, after: Position | None
) -> tuple[list[Hit], Position | None]:
    page = searcher.browse(query, Page(7, order=order, after=after, facets=["path"]))
    return page.result.hits, page.last


def some_changes(draw: random.Random, images: list[ImagePostings]) -> list[Change]:
    """Images that come, go, come again and get other values; the first twenty stay."""
    changes: list[Change] = []
    for image in draw.sample(images[20:], 6):
        kind = draw.randrange(3)
        if kind == 0:
            changes.append(Delete(image.image_id))
        else:
            name = image.image_id if kind == 1 else f"a/{draw.randrange(99):02d}.jpg"
            stars = {"stars": draw.randrange(4)}
            changes.append(Add(replace(image, image_id=name, metadata=stars)))
    return changes


@pytest.mark.parametrize("engine", ["lucene", "columns"])
@pytest.mark.parametrize(
    "following",
    [ranked]
    + [partial(browsed, order, query) for order in (None, "stars", "-stars", "-path")
       for query in ("", COMMON)],
)  # fmt: skip
def test_no_image_comes_twice_and_none_that_stays_is_missing(
    writer: Writer, small: Postings, tmp_path: Path, engine: str, following: Next
) -> None:
    draw, images, seen = random.Random(3), list(small), list[Hit]()
    searcher = open_index(tmp_path / "index", engine)
    after: Position | None = None
    for _ in range(40):
        hits, after = following(searcher, after)
        if after is None:
            break
        seen += hits
        writer.write(some_changes(draw, images))
        writer.commit()
        newer = searcher.refreshed()
        assert newer is not None
        searcher.close()
        searcher = newer
    found = [hit.image_id for hit in seen]
    assert set(small.ids[:20]) <= set(found)
    assert len({image_id for image_id in found if image_id in small.ids[:20]}) == 20
    assert [found.count(image_id) for image_id in small.ids[:20]] == [1] * 20
    assert [hit.rank for hit in seen] == list(range(1, len(seen) + 1))
    searcher.close()
