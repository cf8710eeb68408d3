"""Commits as the user data of Lucene's."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.live.commit import Commit, log_path
from sparta.errors import InputError


def test_a_commit_comes_back_from_its_data() -> None:
    commit = Commit(version=17, log=3, bytes=123_456, columns=2)
    data = {"version": "17", "log": "3", "bytes": "123456", "columns": "2"}
    assert commit.data() == data
    assert Commit.of(data, Path("index")) == commit
    assert Commit.of({}, Path("index")) == Commit() == Commit(0, 0, 0, 0)
    assert log_path(Path("index"), 3) == Path("index/live/log-000003")


@pytest.mark.parametrize("change", [{"pages": "1"}, {"log": "three"}])
def test_data_of_another_version_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"^index: its last commit has data of another version"):
        Commit.of(Commit().data() | change, Path("index"))
