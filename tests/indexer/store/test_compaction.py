"""Segments made in the background, what killed writers left, and equal files of equal images."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from indexer.maintenance.combine import merge_indexes, split_index
from indexer.manifest import MANIFEST, index_folders, owner
from indexer.store import compaction
from indexer.store.changes import Change, Delete, MetadataChange
from indexer.store.commit import SEGMENTS, log_numbers, log_path, next_number, read_commit
from indexer.store.compaction import combine, to_merge
from indexer.store.memtable import CAPACITY
from indexer.store.snapshot import Snapshot
from indexer.update import writer as writing
from indexer.update.writer import IndexWriter, open_whole, open_writer
from sparta.errors import InputError
from sparta.files import MARKER, make_work
from tests.indexer.random_postings import random_postings
from tests.indexer.store.images import add, build, compact, found, image
from tests.indexer.vocabulary import TOKENIZER

WAIT = 20  # seconds


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A base of five images, of which one is deleted, and a segment of two."""
    folder = build(tmp_path / "index", [image(key, {3: 1}) for key in "abcde"])
    compact(folder, [add("x", {3: 5}), add("y", {3: 4}), Delete("c")])
    with open_writer(folder):  # which removes what only the commit before had
        pass
    return folder


def names(index: Path) -> list[str]:
    return sorted(path.name for path in (index / SEGMENTS).iterdir())


def hits(index: Path) -> list[tuple[str, int]]:
    return found(Snapshot.open(index), {3: 1}, 99)


def test_what_a_killed_writer_left_is_removed_and_nothing_else(index: Path) -> None:
    place, before, answers = index / SEGMENTS, names(index), hits(index)
    mine = [place / "000009.txt", place / "9", place / "notes"]
    for path in mine:
        path.mkdir()
    (place / ".000009.work-1-abcdefgh").mkdir()  # killed before its marker was written
    with_content = place / ".000010.work-1-abcdefgh"
    with_content.mkdir()
    (with_content / "thesis.txt").touch()  # nobody's: it has no marker
    shutil.copytree(place / "000001", place / "000007")
    np.save(place / "000001.deleted-000008.npy", np.zeros(1, np.uint8))
    work = make_work(place / "000006")
    assert (work / MARKER).is_file()
    (work / "half").mkdir()
    assert next_number(index) == 11
    with open_writer(index):
        pass
    assert names(index) == sorted([*before, with_content.name, *(path.name for path in mine)])
    assert hits(index) == answers == [("x", 5), ("y", 4), *((key, 1) for key in "abde")]


def test_what_readers_of_the_last_commit_need_stays_until_the_next(index: Path) -> None:
    older = read_commit(index).segments.entries
    with open_whole(index) as writer:
        writer.write([add("z", {3: 9})])
        writer.merge()
        assert {*names(index)} >= {*older}  # a reader may be about to open them
        writer.write([Delete("z")])
        writer.merge()
        assert not {*names(index)} & {*older}
    assert len(log_numbers(index)) <= 2


def test_damage_is_named(index: Path) -> None:
    [entry, _] = read_commit(index).segments.entries.values()
    assert entry.deleted is not None
    bits = index / SEGMENTS / entry.deleted
    whole = bits.read_bytes()
    bits.write_bytes(whole[:-1] + bytes([whole[-1] ^ 64]))
    with pytest.raises(InputError, match=rf"{bits.name} is damaged: it has another hash; restore"):
        Snapshot.open(index)
    bits.unlink()
    with pytest.raises(InputError, match=rf"{bits.name} is missing: the index is damaged"):
        Snapshot.open(index)
    bits.write_bytes(whole)
    manifest = index / SEGMENTS / "000001" / MANIFEST
    content = manifest.read_bytes()
    manifest.write_bytes(content + b"\n")
    with pytest.raises(InputError, match=r"000001/manifest\.json is missing, or not the one that"):
        Snapshot.open(index)
    manifest.write_bytes(content)
    (index / SEGMENTS / "000001" / "images.arrow").unlink()
    with pytest.raises(InputError, match=r"images\.arrow is missing"):
        Snapshot.open(index)


def sizes(*live: int) -> dict[str, tuple[int, int]]:
    return {str(number): (own, own) for number, own in enumerate(live)}


@pytest.mark.parametrize(
    ("segments", "merged"),
    [
        ({}, []),
        (sizes(10**6), []),
        (sizes(10**6, CAPACITY, 7, CAPACITY), []),
        (sizes(10**6, CAPACITY, 7, CAPACITY, 1), ["1", "2", "3", "4"]),
        (sizes(4 * CAPACITY, CAPACITY + 1, 9000, 16_000), ["0", "1", "2", "3"]),
        # The small ones first.
        (sizes(*[4 * CAPACITY] * 4, *[9] * 4), ["4", "5", "6", "7"]),
        ({"a": (100_000, 50_000), "b": (100_000, 49_999)}, ["b"]),
        ({"a": (100, 0)}, []),  # is dropped anyway
    ],
)
def test_segments_of_similar_size_are_merged(
    segments: dict[str, tuple[int, int]], merged: list[str]
) -> None:
    assert to_merge(segments) == merged


class SlowMerge:
    """Merges go on once they are let; compactions at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let = Event(), Event()

        def slow(folder: Path, sources: object, newest: object, *rest: object) -> object:
            if sources:
                self.begun.set()
                assert self.let.wait(WAIT)
            return combine(folder, sources, newest, *rest)  # type: ignore[arg-type]

        monkeypatch.setattr(compaction, "combine", slow)


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose logs are compacted at once, and whose segments are merged in pairs."""
    monkeypatch.setattr(compaction, "FAN", 2)
    monkeypatch.setattr(writing, "COMPACT_AT", 1)
    return build(tmp_path / "pairs", [image(key, {3: 1}) for key in "abc"])


def written(writer: IndexWriter, changes: list[Change]) -> None:
    """Write, and wait until what is written is in a segment."""
    writer.write(changes)
    writer.commit()
    writer._compactor._compaction.result(WAIT)
    writer.commit()


def segments(index: Path) -> int:
    return len(read_commit(index).segments.entries)


def test_logs_are_compacted_while_segments_are_merged(
    pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = SlowMerge(monkeypatch)
    with open_whole(pairs) as writer:
        written(writer, [add("d", {3: 2}), add("e", {3: 2}), Delete("b")])
        assert merge.begun.wait(WAIT)
        assert (segments(pairs), hits(pairs)) == (2, [("d", 2), ("e", 2), ("a", 1), ("c", 1)])
        read = read_commit(pairs).segments.entries
        written(writer, [Delete("d"), Delete("a"), add("f", {3: 3}), add("c", {3: 4})])
        right = [("c", 4), ("f", 3), ("e", 2)]
        # The base has no image left that is not deleted.
        assert (segments(pairs), hits(pairs)) == (2, right)
        assert {*names(pairs)} >= {*read}  # the merge reads them
        merge.let.set()
        writer.settle()
        writer.commit()
        assert hits(pairs) == right
    with open_writer(pairs):  # which removes what is not listed
        pass
    assert (segments(pairs), hits(pairs)) == (1, right)
    assert len([name for name in names(pairs) if name.isdecimal()]) == 1
    assert len(log_numbers(pairs)) == 1


def test_merges_that_were_given_up_are_begun_again(
    pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        merge = SlowMerge(patched)
        patched.setattr(compaction, "CLOSING", 0.0)
        with open_whole(pairs) as writer:
            written(writer, [add("d", {3: 2})])
            assert merge.begun.wait(WAIT)
            writer._compactor._stopped.set()
            merge.let.set()
    assert segments(pairs) == 2
    with open_writer(pairs) as again:
        again.settle()
    assert segments(pairs) == 1
    assert hits(pairs) == [("d", 2), ("a", 1), ("b", 1), ("c", 1)]


def lose_a_segment(index: Path) -> None:
    shutil.rmtree(index / SEGMENTS / "000001")


def fill_the_disk(index: Path) -> None:
    (index / SEGMENTS).rename(index / "elsewhere")
    (index / SEGMENTS).touch()


@pytest.mark.parametrize("happens", [lose_a_segment, fill_the_disk])
def test_a_failure_is_reported_and_changes_nothing(
    pairs: Path, caplog: pytest.LogCaptureFixture, happens: Callable[[Path], None]
) -> None:
    with open_whole(pairs) as writer:
        writer.write([add("d", {3: 2})])
        happens(pairs)
        with caplog.at_level(logging.WARNING):
            writer.commit()
            writer.settle()
        assert f"{pairs}: its segments stay as they are" in caplog.text
        assert list(read_commit(pairs).segments.entries) == ["000001"]
        assert log_path(pairs, 1).is_file()
        assert writer.metadata("d") == {}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_segments_of_equal_images_are_equal_to_the_byte(tmp_path: Path) -> None:
    """Built at once and in parts, merged of others, divided into shards, and merged again."""
    images = list(random_postings(TOKENIZER, 700))
    whole = build(tmp_path / "whole", images)
    first = files(whole / SEGMENTS / "000001")
    assert files(build(tmp_path / "parts", images, size=37) / SEGMENTS / "000001") == first
    half = build(tmp_path / "half", images[::2])
    merge_indexes([half, build(tmp_path / "other", images[1::2])], tmp_path / "both")
    assert files(tmp_path / "both" / SEGMENTS / "000001") == first
    split_index(whole, tmp_path / "shards", 3)
    for number, folder in enumerate(index_folders(tmp_path / "shards")):
        own = [one for one in images if owner(one.image_id, 3) == number]
        built = build(tmp_path / f"shard-{number}", own)
        assert files(folder / SEGMENTS / "000001") == files(built / SEGMENTS / "000001")
    with open_whole(half) as writer:
        described, gone = images[0].image_id, images[2].image_id
        writer.write([MetadataChange(described, {"a": 1}), Delete(gone), add("new", {3: 1})])
        writer.write([MetadataChange(described, images[0].metadata), Delete("new")])
        writer.merge()
    kept = build(tmp_path / "kept", [images[0], *images[4::2]])
    [merged] = read_commit(half).segments.entries
    assert files(half / SEGMENTS / merged) == files(kept / SEGMENTS / "000001")
