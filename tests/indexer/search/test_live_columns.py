"""An index that is written to is searched: followed page by page, when files go or are damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from indexer.columns.live.segment import Segment
from indexer.columns.live.state import state_folder
from indexer.update.conversion import make_live

from indexer.filters.text import parse_filter
from indexer.postings import ImagePostings, Postings
from indexer.search.api import Hit
from indexer.search.browsing import Page
from indexer.search.live_columns import LiveColumnSearcher
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index
from indexer.search.paging import Position, page_after
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.store.commit import Commit, log_path
from indexer.update import writer as writer_module
from indexer.update.sharded import Writer
from indexer.update.writer import open_writer
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.indexer.live_index import LiveReference, assert_same, commit_and_wait
from tests.indexer.random_postings import MakeIndex, random_postings
from tests.indexer.vocabulary import COMMON, TOKENIZER


def test_the_next_commit_is_opened_if_files_of_the_newest_go_meanwhile(
    built: Path, small: Postings, right: LiveReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "COMPACT_AT", 1)
    columns = LiveColumnSearcher._columns
    with open_writer(built) as writer:

        def late(searcher: LiveColumnSearcher, commit: Commit) -> object:
            monkeypatch.setattr(LiveColumnSearcher, "_columns", columns)
            for image_id in small.ids[:3]:  # after two compactions the first log is removed
                writer.write([Delete(image_id)])
                commit_and_wait(writer)
            assert not log_path(built, 2).exists()
            return searcher._columns(commit)

        writer.write([Delete(small.ids[3])])
        commit_and_wait(writer)
        monkeypatch.setattr(LiveColumnSearcher, "_columns", late)
        searcher = open_index(built, "columns")
        right.apply(map(Delete, small.ids[:4]))
        assert searcher.commit == writer.commit()
        assert_same(searcher, right.searcher())


def test_what_was_replaced_since_is_explained_without_its_regions(
    built: Path, small: Postings
) -> None:
    """Lucene may be at a later commit when it is first asked for."""
    replaced, described, deleted, *others = small.ids
    with open_writer(built) as writer:
        writer.write([Delete(others.pop())])
        writer.commit()
        searcher, right = open_index(built, "columns"), open_index(built, "lucene")
        asked = [image_id for image_id in small.ids if image_id in {replaced, described, *others}]
        images = dict(zip(small.ids, small, strict=True))
        writer.write(
            [
                Add(replace(images[others[0]], image_id=replaced)),
                MetadataChange(described, {"width": 1}),
                Delete(deleted),
            ]
        )
        version = writer.commit().version
        assert searcher.commit.version < version
        found = {one.image_id: one for one in searcher.explain_all(COMMON, [*asked, deleted])}
        wanted = {one.image_id: one for one in right.explain_all(COMMON, [*asked, deleted])}
        for image_id in (described, *others):
            assert found[image_id] == wanted[image_id]
        for image_id in (replaced, deleted):
            assert found[image_id].score == wanted[image_id].score
            assert [term.region for term in found[image_id].terms] == [None]
        newer = searcher.refreshed()
        assert newer is not None and newer.commit.version == version
        assert newer.explain(COMMON, replaced) == LuceneSearcher(built).explain(COMMON, replaced)


@pytest.mark.parametrize("engine", ["lucene", "columns"])
def test_filters_know_what_was_written(built: Path, small: Postings, engine: str) -> None:
    first, second, *_ = small.ids
    with open_writer(built) as writer:
        writer.write([Delete(first), MetadataChange(second, {"width": 800})])
    searcher = open_index(built, engine)
    for text, right in (("width:800", {second}), ("width:<800", {*small.ids[2:]})):
        allowed = searcher.field_index().allowed(parse_filter(text))
        found = searcher.search(COMMON, 20, allowed=allowed)
        assert {hit.image_id for hit in found.hits} == right


def test_both_engines_agree_on_which_images_have_a_word(built: Path, small: Postings) -> None:
    with open_writer(built) as writer:
        strongest = LuceneSearcher(built).search("dog", 1).hits[0].image_id
        writer.write([Delete(strongest), Delete(small.ids[0])])
        writer.commit()
        searchers = [open_index(built, engine) for engine in ("lucene", "columns")]
        for query in ("the -dog", "+dog the", "beach^2 -cat +the", "dog cat red"):
            left, right = (one.search(query, 20, min_coverage=0.3) for one in searchers)
            assert (left.hits, left.conditions) == (right.hits, right.conditions)


def test_a_damaged_log_is_named(built: Path, small: Postings) -> None:
    with open_writer(built) as writer:
        writer.write([Delete(small.ids[0])])
    log = log_path(built, 1)
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"^{log} is damaged at byte 0"):
        open_index(built)
    assert len(open_index(built, "lucene")) == 11


def test_columns_that_are_missing_are_built_before_the_first_write(
    built: Path, right: LiveReference
) -> None:
    shutil.rmtree(built / "columns")
    make_live(built)
    assert_same(open_index(built, "columns"), right.searcher())


@pytest.mark.parametrize("engine", ["lucene", "columns"])
def test_fields_that_did_not_change_are_not_read_again(
    built: Path, small: Postings, engine: str
) -> None:
    with open_writer(built) as writer:
        writer.write([Delete(small.ids[0])])
        writer.commit()
        searcher = open_index(built, engine)
        first = searcher.field_index()
        writer.write([MetadataChange(small.ids[1], {"width": 800, "colour": 3})])
        writer.commit()
        newer = searcher.refreshed()
        assert newer is not None
        second = newer.field_index()
        assert second.parts[0] is first.parts[0]
        assert len(second.parts) == len(first.parts) + 1
        assert second.kinds["colour"] == "number"
        assert first.allowed(parse_filter("width:800")).sum() == 0
        assert second.allowed(parse_filter("width:800")).sum() == 1


@pytest.mark.parametrize("engine", ["lucene", "columns"])
def test_images_with_equal_values_are_in_the_order_of_their_ids(
    built: Path, small: Postings, engine: str
) -> None:
    with open_writer(built) as writer:
        for image_id in reversed(small.ids[2:7]):
            writer.write([MetadataChange(image_id, {"stars": 5})])
            writer.commit()
        writer.write([MetadataChange(one, {"stars": 5}) for one in reversed(small.ids[7:])])
    searcher = open_index(built, engine)
    for k in (3, 20):
        found = searcher.browse(COMMON, Page(k, order="-stars")).result.hits
        assert [hit.image_id for hit in found] == [*small.ids[2:], *small.ids[:2]][:k]


def test_a_field_keeps_its_kind(
    built: Path, small: Postings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer_module, "COMPACT_AT", 2)
    with open_writer(built) as writer:
        writer.write([MetadataChange(small.ids[0], {"width": "wide"})])
        writer.write([MetadataChange(small.ids[1], {"width": "wide"})])
        assert commit_and_wait(writer).columns == 2
        fields = open_index(built).field_index()
    assert fields.kinds["width"] == "number"
    assert fields.allowed(parse_filter("-width:*")).sum() == 2
    # A segment that was written without knowing the older kinds.
    [segment] = (built / "live").glob("segment-*")
    assert not caplog.records
    assert Segment(segment).fields({"path": "number"}).kinds["path"] == "number"
    assert "reading the fields" in caplog.text


def test_verify_reads_what_a_commit_consists_of(
    built: Path, small: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "COMPACT_AT", 2)
    with open_writer(built) as writer:
        writer.write([MetadataChange(small.ids[0], {"a": 1}), Delete(small.ids[1])])
        commit_and_wait(writer)
        writer.write([Delete(small.ids[2])])
        writer.commit()
    assert verify_index(built) == []
    state = state_folder(built, 2)
    [segment] = (built / "live").glob("segment-*")
    for path in (segment / "order.npy", segment / "images.arrow", state / "columns.npy"):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        [problem] = verify_index(built)
        assert problem.startswith(str(path))
        path.write_bytes(whole)
    log = log_path(built, 2)
    whole = log.read_bytes()
    log.write_bytes(whole[:-1])
    [problem] = verify_index(built)
    assert problem.startswith(f"{log} is damaged")
    log.write_bytes(whole)
    monkeypatch.setattr("indexer.verify.read_changes", lambda *_: [])
    assert verify_index(built) == [
        f"{built / 'live'} has 11 images, the index 10: build the index again"
    ]
    for path in (built / "lucene").glob("segments_*"):
        path.write_bytes(b"")
    [problem] = verify_index(built)
    assert str(built / "lucene") in problem


@pytest.mark.parametrize("engine", ["lucene", "columns"])
def test_nothing_is_left_to_browse(built: Path, small: Postings, engine: str) -> None:
    with open_writer(built) as writer:
        writer.write(list(map(Delete, small.ids)))
    searcher = open_index(built, engine)
    for query in ("", COMMON):
        found = searcher.browse(query, Page(5))
        assert (found.total, found.result.hits, found.last) == (0, [], None)


Next = Callable[[LuceneSearcher, Position | None], tuple[list[Hit], Position | None]]


@pytest.fixture(scope="module")
def paged() -> Postings:
    return random_postings(TOKENIZER, 40)


@pytest.fixture
def paging(tmp_path: Path, paged: Postings, make_index: MakeIndex) -> Iterator[Writer]:
    with open_writer(make_index(tmp_path / "index", paged)) as writer:
        stars = [{"stars": number % 3} if number % 4 else {} for number in range(len(paged))]
        writer.write(list(map(MetadataChange, paged.ids, stars)))
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
    paging: Writer, paged: Postings, tmp_path: Path, engine: str, following: Next
) -> None:
    draw, images, seen = random.Random(3), list(paged), list[Hit]()
    searcher = open_index(tmp_path / "index", engine)
    after: Position | None = None
    for _ in range(40):
        hits, after = following(searcher, after)
        if after is None:
            break
        seen += hits
        paging.write(some_changes(draw, images))
        paging.commit()
        newer = searcher.refreshed()
        assert newer is not None
        searcher.close()
        searcher = newer
    found = [hit.image_id for hit in seen]
    assert [found.count(image_id) for image_id in paged.ids[:20]] == [1] * 20
    assert [hit.rank for hit in seen] == list(range(1, len(seen) + 1))
    searcher.close()
