"""The changes of a live index between two of its states, from one log or several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from indexer.live.changes import Change
from indexer.live.commit import Commit, log_path
from indexer.live.log import read_log


def read_changes(index: Path, log: int, start: int, commit: Commit) -> Iterator[Change]:
    """The changes from a position in a log up to a commit, in order.

    Args:
        index: the index folder.
        log: number of the log, 0 for before the first; those after it are read from their
            beginning.
        start: position in it, after some record.
        commit: of this log or a later one.

    Raises:
        InputError: if a log is missing or damaged.
    """
    for number in range(max(log, 1), commit.log + 1):
        end = commit.bytes if number == commit.log else None
        yield from read_log(log_path(index, number), start if number == log else 0, end)
