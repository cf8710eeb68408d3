"""Commits as the user data of Lucene's."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexer.live.commit import Commit, log_path
from sparta.errors import InputError


def test_a_commit_comes_back_from_its_data() -> None:
    commit = Commit(
        version=17, log=3, bytes=123_456, columns=2, lineage="a", parent="b", began=9, given=7
    )
    former = {"version": "17", "log": "3", "bytes": "123456", "columns": "2"}
    data = former | {"lineage": "a", "parent": "b", "began": "9", "given": "7"}
    assert commit.data() == data
    assert Commit.of(former, Path("index")) == Commit(17, 3, 123_456, 2)  # of earlier versions
    assert Commit.of(data, Path("index")) == commit
    assert Commit.of({}, Path("index")) == Commit() == Commit(0, 0, 0, 0)
    assert log_path(Path("index"), 3) == Path("index/live/log-000003")


@pytest.mark.parametrize("change", [{"pages": "1"}, {"log": "three"}, {"began": "x"}])
def test_data_of_another_version_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"^index: its last commit has data of another version"):
        Commit.of(Commit().data() | change, Path("index"))


@pytest.mark.parametrize(
    ("later", "continues"),
    [
        (Commit(7, 1, 90, 0, "a", "", 0), True),
        (Commit(5, 1, 70, 0, "a", "", 0), True),  # the same
        (Commit(4, 1, 60, 0, "a", "", 0), False),  # an older state was restored
        (Commit(8, 1, 95, 0, "b", "a", 5), True),
        (Commit(8, 1, 95, 0, "b", "a", 6), True),
        (Commit(8, 1, 95, 0, "b", "a", 4), False),  # restored, and written to again
        (Commit(9, 1, 99, 0, "c", "b", 8), False),  # unknown: what is between is not there
        (Commit(9, 1, 99, 0), False),
    ],
)
def test_a_commit_of_a_copy_continues_only_what_the_copy_has(
    later: Commit, continues: bool
) -> None:
    assert later.continues(Commit(5, 1, 70, 0, "a", "", 0)) == continues
    assert later.continues(Commit())  # the build itself
    assert not later.continues(Commit(5, 1, 70, 0))
