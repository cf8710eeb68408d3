"""Which segments are merged and when, what states list, and what killed writers left."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from pathlib import Path
from threading import Event

import pytest

from indexer.columns.live import state as tiers
from indexer.columns.live.compaction import Merge
from indexer.columns.live.newest import CAPACITY
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import (
    ColumnState,
    next_number,
    remove_unlisted,
    state_folder,
    to_merge,
)
from indexer.columns.live.upkeep import Upkeep
from indexer.columns.manifest import FOLDER
from indexer.store.changes import Change, Delete
from indexer.store.commit import log_path
from indexer.store.log import ChangeLog
from indexer.parts import MANIFEST, describe_parts
from sparta.atomic import MARKER, make_work
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from tests.indexer.columns.live.images import VOCABULARY, add, build, compact, found


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """State 3: a base of five images, of which one is deleted, and a segment of two."""
    folder = tmp_path / "index"
    build(folder, {key: ({}, {3: 1}) for key in "abcde"}, 8)
    compact(folder, 0, [add("x", {3: 5}), add("y", {3: 4}), Delete("c")], 3)
    return folder


def live_names(index: Path) -> list[str]:
    return sorted(path.name for path in (index / "live").iterdir())


def test_what_a_killed_writer_left_is_removed_and_nothing_else(index: Path) -> None:
    live = index / "live"
    (live / "log-000003").write_bytes(b"log")
    mine = [live / "segment-000009.txt", live / "segment-9", live / "notes"]
    for path in mine:
        path.mkdir()
    (live / ".segment-000009.work-1-abcdefgh").mkdir()  # killed before its marker was written
    with_content = live / ".segment-000010.work-1-abcdefgh"
    with_content.mkdir()
    (with_content / "thesis.txt").touch()  # nobody's: it has no marker
    compact(index, 3, [], 5)
    (live / "log-000002").write_bytes(b"older log")
    shutil.copytree(live / "segment-000003", live / "segment-000007")
    work = make_work(live / "state-000008")
    assert (work / MARKER).is_file()
    (work / "half").mkdir()
    assert next_number(index) == 11
    remove_unlisted(index, {3})
    assert live_names(index) == sorted(
        [with_content.name, "log-000003", "segment-000003", "state-000003", *(p.name for p in mine)]
    )
    assert (index / FOLDER / MANIFEST).is_file()
    columns = LiveColumns.open(index, 3, VOCABULARY, 8)
    assert found(columns, {3: 1}, 9) == [("x", 5), ("y", 4), *((key, 1) for key in "abde")]


def test_what_others_read_and_write_is_not_removed(index: Path) -> None:
    compact(index, 3, map(Delete, "abdexy"), 5)
    make_work(index / "live" / "segment-000006")
    remove_unlisted(index, {3, 5}, making={6})
    left = live_names(index)
    assert left[0].startswith(".segment-000006.work-")
    assert left[1:] == ["segment-000003", "state-000003", "state-000005"]


def test_columns_that_no_state_lists_are_removed(index: Path) -> None:
    compact(index, 3, map(Delete, "abde"), 4)
    assert list(ColumnState.open(index, 4).segments) == ["live/segment-000003"]
    remove_unlisted(index, {4})
    assert not (index / FOLDER).exists()
    with pytest.raises(InputError, match="columns is missing"):  # a reader of an earlier commit
        LiveColumns.open(index, 0, VOCABULARY, 8)
    assert live_names(index) == ["segment-000003", "state-000004"]
    assert len(LiveColumns.open(index, 4, VOCABULARY, 8)) == 2


def test_an_index_without_images_takes_new_ones(index: Path) -> None:
    compact(index, 3, map(Delete, "abdexy"), 4)
    columns = LiveColumns.open(index, 4, VOCABULARY, 8)
    assert len(columns) == 0
    assert found(columns, {3: 1}, 9) == []
    assert found(columns.after([add("q", {3: 2})]), {3: 1}, 9) == [("q", 2)]


def test_an_index_as_built_has_its_columns(index: Path) -> None:
    assert next_number(index.parent) == 1
    assert list(ColumnState.open(index, 0).segments) == [FOLDER]


def test_damage_of_a_state_is_named(index: Path) -> None:
    state = state_folder(index, 3)
    bits = state / f"{FOLDER}.npy"
    whole = bits.read_bytes()
    bits.write_bytes(whole[:-1] + bytes([whole[-1] ^ 64]))
    with pytest.raises(InputError, match=r"columns\.npy is damaged"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    bits.unlink()
    with pytest.raises(InputError, match=r"columns\.npy is missing"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    bits.write_bytes(whole)
    manifest = index / "live" / "segment-000003" / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    with pytest.raises(InputError, match=r"manifest\.json is missing, or not the one that"):
        LiveColumns.open(index, 3, VOCABULARY, 8)
    with pytest.raises(InputError, match="is not an index: it has no"):
        LiveColumns.open(index, 4, VOCABULARY, 8)


def test_bits_of_another_segment_are_refused(index: Path) -> None:
    with pytest.raises(InputError, match="it is of another segment"):
        ColumnState.open(index, 3).live(index, 3, FOLDER, 100)
    assert ColumnState.open(index, 3).live(index, 3, FOLDER, 5).tolist() == [1, 1, 0, 1, 1]


def test_an_image_table_of_another_segment_is_refused(index: Path) -> None:
    folder = index / FOLDER
    shutil.copy(index / "live" / "segment-000003" / "images.arrow", folder / "images.arrow")
    from indexer.columns.live.segment import Segment
    from indexer.columns.manifest import ColumnManifest

    ColumnManifest.save(folder, "", describe_parts(folder))
    with pytest.raises(InputError, match="the columns have 5 images, the table 2"):
        Segment(folder)


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


WAIT = 20  # seconds


@pytest.fixture
def upkept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index whose segments are merged in pairs."""
    monkeypatch.setattr(tiers, "FAN", 2)
    folder = tmp_path / "upkept"
    build(folder, {key: ({}, {3: 1}) for key in "abc"}, 8)
    (folder / "live").mkdir()
    return folder


def write_log(upkept: Path, number: int, changes: Iterable[Change]) -> None:
    """Write a log, and begin the next one."""
    log = ChangeLog(log_path(upkept, number))
    log.append(list(changes))
    log.close()
    ChangeLog(log_path(upkept, number + 1)).close()


class SlowMerge:
    """Merges go on once they are let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.let = Event(), Event()
        write = Merge.write

        def slow(merge: Merge, progress: Progress = no_progress) -> None:
            self.begun.set()
            assert self.let.wait(WAIT)
            write(merge, progress)

        monkeypatch.setattr(Merge, "write", slow)


def hits(upkept: Path, state: int) -> list[tuple[str, int]]:
    return found(LiveColumns.open(upkept, state, VOCABULARY, 8), {3: 1}, 99)


def segments(upkept: Path, state: int) -> int:
    return len(ColumnState.open(upkept, state).segments)


def test_logs_are_compacted_while_segments_are_merged(
    upkept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = SlowMerge(monkeypatch)
    own = Upkeep(upkept, VOCABULARY, 8, 0)
    write_log(upkept, 1, [add("d", {3: 2}), add("e", {3: 2}), Delete("b")])
    own.compact(2)
    assert merge.begun.wait(WAIT)
    assert (segments(upkept, own.state), hits(upkept, own.state)) == (
        2,
        [("d", 2), ("e", 2), ("a", 1), ("c", 1)],
    )
    before = own.state
    write_log(upkept, 2, [Delete("d"), Delete("a"), add("f", {3: 3}), add("c", {3: 4})])
    own.compact(3)
    wait([own._compaction])
    right = [("c", 4), ("f", 3), ("e", 2)]
    # The base has no image left that is not deleted.
    assert (segments(upkept, own.state), hits(upkept, own.state)) == (2, right)
    own.remove_except({own.state})
    assert segments(upkept, before) == 2  # the merge reads it
    assert not log_path(upkept, 1).exists() or ColumnState.open(upkept, before).log == 2
    merge.let.set()
    own.close()
    assert (segments(upkept, own.state), hits(upkept, own.state)) == (1, right)
    assert ColumnState.open(upkept, own.state).log == 3
    Upkeep(upkept, VOCABULARY, 8, own.state).close()
    left = sorted(path.name for path in (upkept / "live").iterdir())
    assert len([name for name in left if name.startswith("segment")]) == 1
    assert len([name for name in left if name.startswith("state")]) == 1


def test_merges_that_were_given_up_are_begun_again(
    upkept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        merge = SlowMerge(patched)
        own = Upkeep(upkept, VOCABULARY, 8, 0)
        write_log(upkept, 1, [add("d", {3: 2})])
        own.compact(2)
        assert merge.begun.wait(WAIT)
        own._stopped.set()
        merge.let.set()
        own.close(0)
    assert segments(upkept, own.state) == 2
    again = Upkeep(upkept, VOCABULARY, 8, own.state)
    again.close()
    assert segments(upkept, again.state) == 1
    assert hits(upkept, again.state) == [("d", 2), ("a", 1), ("b", 1), ("c", 1)]


def lose_a_segment(upkept: Path) -> None:
    shutil.rmtree(upkept / "columns")


def fill_the_disk(upkept: Path) -> None:
    shutil.rmtree(upkept / "live")
    (upkept / "live").touch()


@pytest.mark.parametrize("happens", [lose_a_segment, fill_the_disk])
def test_a_failure_is_reported_and_changes_nothing(
    upkept: Path, caplog: pytest.LogCaptureFixture, happens: Callable[[Path], None]
) -> None:
    own = Upkeep(upkept, VOCABULARY, 8, 0)
    write_log(upkept, 1, [add("d", {3: 2})])
    happens(upkept)
    with caplog.at_level(logging.WARNING):
        own.compact(2)
        own.close()
    assert own.state == 0
    assert f"{upkept}: its segments of columns stay as they are" in caplog.text
