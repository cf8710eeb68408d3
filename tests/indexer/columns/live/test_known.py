"""Images of a live index, looked up without Java."""

from __future__ import annotations

from pathlib import Path

from indexer.columns.live.state import KnownImages
from indexer.live.changes import Change, Delete, MetadataChange
from tests.indexer.columns.live.images import add, build, compact


def test_images_of_a_state_and_of_changes_since(tmp_path: Path) -> None:
    build(tmp_path, {key: ({"own": key}, {3: 1}) for key in "abc"}, 8)
    known = KnownImages(tmp_path, 0)
    assert (known.metadata("a"), known.metadata("x")) == ({"own": "a"}, None)
    first: list[Change] = [
        Delete("a"),
        add("x", {3: 1}, {"n": 1}),
        MetadataChange("b", {}),
        Delete("c"),
    ]
    for change in first:
        known.note(1, change)
    known.note(2, MetadataChange("x", {"n": 2}))
    known.note(2, add("c", {3: 2}, {"n": 3}))
    for state in (0, 2):
        found = {key: known.metadata(key) for key in "abcxy"}
        assert found == {"a": None, "b": {}, "c": {"n": 3}, "x": {"n": 2}, "y": None}
        if state == 0:
            compact(tmp_path, 0, first, 2)
            known.follow(2)
    # What the state has is forgotten: it alone says what was in the first log.
    assert KnownImages(tmp_path, 2).metadata("x") == {"n": 1}
