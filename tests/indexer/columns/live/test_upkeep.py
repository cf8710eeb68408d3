"""Compactions and merges in the background: beside one another, given up, failing."""

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
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState
from indexer.columns.live.upkeep import Upkeep
from indexer.live.changes import Change, Delete
from indexer.live.commit import log_path
from indexer.live.log import ChangeLog
from sparta.progress import Progress, no_progress
from tests.indexer.columns.live.images import VOCABULARY, add, build, found

WAIT = 20  # seconds


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    build(folder, {key: ({}, {3: 1}) for key in "abc"}, 8)
    (folder / "live").mkdir()
    return folder


@pytest.fixture(autouse=True)
def merged_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FAN", 2)


def write_log(index: Path, number: int, changes: Iterable[Change]) -> None:
    """Write a log, and begin the next one."""
    log = ChangeLog(log_path(index, number))
    log.append(list(changes))
    log.close()
    ChangeLog(log_path(index, number + 1)).close()


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


def hits(index: Path, state: int) -> list[tuple[str, int]]:
    return found(LiveColumns.open(index, state, VOCABULARY, 8), {3: 1}, 99)


def segments(index: Path, state: int) -> int:
    return len(ColumnState.open(index, state).segments)


def test_logs_are_compacted_while_segments_are_merged(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = SlowMerge(monkeypatch)
    own = Upkeep(index, VOCABULARY, 8, 0)
    write_log(index, 1, [add("d", {3: 2}), add("e", {3: 2}), Delete("b")])
    own.compact(2)
    assert merge.begun.wait(WAIT)
    assert (segments(index, own.state), hits(index, own.state)) == (
        2,
        [("d", 2), ("e", 2), ("a", 1), ("c", 1)],
    )
    before = own.state
    write_log(index, 2, [Delete("d"), Delete("a"), add("f", {3: 3}), add("c", {3: 4})])
    own.compact(3)
    wait([own._compaction])
    right = [("c", 4), ("f", 3), ("e", 2)]
    # The base has no image left that is not deleted.
    assert (segments(index, own.state), hits(index, own.state)) == (2, right)
    own.remove_except({own.state})
    assert segments(index, before) == 2  # the merge reads it
    assert not log_path(index, 1).exists() or ColumnState.open(index, before).log == 2
    merge.let.set()
    own.close()
    assert (segments(index, own.state), hits(index, own.state)) == (1, right)
    assert ColumnState.open(index, own.state).log == 3
    Upkeep(index, VOCABULARY, 8, own.state).close()
    left = sorted(path.name for path in (index / "live").iterdir())
    assert len([name for name in left if name.startswith("segment")]) == 1
    assert len([name for name in left if name.startswith("state")]) == 1


def test_merges_that_were_given_up_are_begun_again(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        merge = SlowMerge(patched)
        own = Upkeep(index, VOCABULARY, 8, 0)
        write_log(index, 1, [add("d", {3: 2})])
        own.compact(2)
        assert merge.begun.wait(WAIT)
        own._stopped.set()
        merge.let.set()
        own.close(0)
    assert segments(index, own.state) == 2
    again = Upkeep(index, VOCABULARY, 8, own.state)
    again.close()
    assert segments(index, again.state) == 1
    assert hits(index, again.state) == [("d", 2), ("a", 1), ("b", 1), ("c", 1)]


def lose_a_segment(index: Path) -> None:
    shutil.rmtree(index / "columns")


def fill_the_disk(index: Path) -> None:
    shutil.rmtree(index / "live")
    (index / "live").touch()


@pytest.mark.parametrize("happens", [lose_a_segment, fill_the_disk])
def test_a_failure_is_reported_and_changes_nothing(
    index: Path, caplog: pytest.LogCaptureFixture, happens: Callable[[Path], None]
) -> None:
    own = Upkeep(index, VOCABULARY, 8, 0)
    write_log(index, 1, [add("d", {3: 2})])
    happens(index)
    with caplog.at_level(logging.WARNING):
        own.compact(2)
        own.close()
    assert own.state == 0
    assert f"{index}: its segments of columns stay as they are" in caplog.text
