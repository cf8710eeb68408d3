"""Changes of several logs."""

from __future__ import annotations

from pathlib import Path

from indexer.live.changes import Delete
from indexer.live.commit import Commit, log_numbers, log_path
from indexer.live.history import read_changes
from indexer.live.log import ChangeLog


def test_logs_are_read_one_after_another(tmp_path: Path) -> None:
    log_path(tmp_path, 1).parent.mkdir()
    ends = {}
    for number in (1, 2, 3):
        log = ChangeLog(log_path(tmp_path, number))
        for letter in "ab":
            ends[number, letter] = log.append([Delete(f"{letter}{number}")])
        log.close()
    assert sorted(log_numbers(tmp_path)) == [1, 2, 3]

    def ids(log: int, start: int, commit: Commit) -> list[str]:
        return [change.image_id for change in read_changes(tmp_path, log, start, commit)]

    half = Commit(log=3, bytes=ends[3, "a"])
    assert ids(0, 0, half) == ids(1, 0, half) == ["a1", "b1", "a2", "b2", "a3"]
    assert ids(2, ends[2, "a"], half) == ["b2", "a3"]
    assert ids(2, ends[2, "a"], Commit(log=2, bytes=ends[2, "b"])) == ["b2"]
    assert ids(0, 0, Commit()) == []
