"""Deletions, metadata and moves of images: all of them, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.live.commit import log_path
from indexer.live.given import FILE
from indexer.live.log import ChangeLog, read_log
from indexer.postings import Postings
from indexer.search.open import open_index
from indexer.update import delete, metadata
from indexer.update.delete import delete_images
from indexer.update.metadata import UpdateReport, update_metadata
from indexer.update.sync import plan as moves
from indexer.update.sync.plan import move_and_delete
from sparta.errors import InputError
from tests.indexer.live_index import LiveReference, assert_same


def test_images_are_deleted_all_together_or_not_at_all(
    built: Path, small: Postings, right: LiveReference
) -> None:
    for absent, named in ((["x"], "'x':"), (["x", "y", "z"], "'x' and 2 more:")):
        with pytest.raises(InputError, match=rf"index has no image {named} .*nothing was deleted"):
            delete_images(built, [small.ids[0], *absent])
    assert_same(open_index(built), right.searcher())
    gone = [small.ids[i] for i in (0, 3, 3)]
    assert delete_images(built, gone) == 10
    right.apply(map(Delete, gone))
    assert_same(open_index(built), right.searcher())
    assert delete_images(built, small.ids[4:]) == 2
    assert delete_images(built, small.ids[1:3]) == 0
    assert open_index(built).search("dog the").unknown == ["dog", "the"]


def test_many_are_deleted_in_parts_and_each_once(
    built: Path, small: Postings, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, parts = ChangeLog.append, list[int]()

    def note(log: ChangeLog, changes: Sequence[Change]) -> int:
        if log.path.name != FILE:  # the record of what the user gave
            parts.append(len(changes))
        return append(log, changes)

    monkeypatch.setattr(delete, "AT_ONCE", 3)
    monkeypatch.setattr(ChangeLog, "append", note)
    assert delete_images(built, [*small.ids[:7], *small.ids[:4]]) == 5
    assert parts == [3, 3, 1]
    assert [change.image_id for change in read_log(log_path(built, 1))] == small.ids[:7]


@pytest.mark.parametrize("at_once", [metadata.AT_ONCE, 3])
def test_fields_are_merged_and_null_removes_one(
    built: Path,
    small: Postings,
    right: LiveReference,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    monkeypatch.setattr(metadata, "AT_ONCE", at_once)
    first, second, third, *others = small.ids
    about: dict[str, dict[str, Any]] = {
        first: {"album": "sea", "width": None},
        "absent": {"a": 1},
        second: {"b": None},
    }
    about |= {third: {}} | {image_id: {"number": i} for i, image_id in enumerate(others)}
    steps: list[tuple[str, int, int]] = []
    report = update_metadata(built, about, lambda *step: steps.append(step))
    assert report == UpdateReport(changed=10, unchanged=2, unknown=["absent"])
    assert steps[-1] == ("update", 13, 13)
    right.apply([MetadataChange(first, {"album": "sea"})])
    for i, one in enumerate(others):
        right.apply([MetadataChange(one, right.images[one].metadata | {"number": i})])
    assert_same(open_index(built), right.searcher())
    assert update_metadata(built, {first: {"album": "sea"}}).unchanged == 1
    with pytest.raises(InputError, match=r"metadata of .* cannot be JSON"):
        update_metadata(built, {second: {"x": float("nan")}})


def test_moved_images_keep_terms_and_metadata(
    built: Path, small: Postings, right: LiveReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "AT_ONCE", 2)
    moved = {f"z/{number}.jpg": small.ids[number] for number in (4, 0, 2, 7, 11)}
    gone = [small.ids[5], "absent"]
    assert move_and_delete(built, moved | {"y.jpg": "absent too"}, gone) == (5, 1)
    for new, former in moved.items():
        right.apply([Add(replace(right.images[former], image_id=new)), Delete(former)])
    right.apply([Delete(small.ids[5])])
    for again in (False, True):  # as after an interruption
        assert not again or move_and_delete(built, moved, gone) == (0, 0)
        assert_same(open_index(built), right.searcher())
