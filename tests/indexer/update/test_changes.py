"""Changes of images: refused, or written whole, and nothing else of an image changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.engines.open import open_index
from indexer.postings import ImagePostings, Inputs, Postings
from indexer.store.changes import Add, Change, Delete, MetadataChange
from indexer.update import images as module
from indexer.update import sync_plan as moves
from indexer.update.images import UpdateReport, delete_images, update_metadata
from indexer.update.sync_plan import move_and_delete
from indexer.update.writer import open_writer
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


@pytest.mark.parametrize("at_once", [module.AT_ONCE, 3])
def test_fields_are_merged_and_null_removes_one(
    built: Path,
    small: Postings,
    right: LiveReference,
    monkeypatch: pytest.MonkeyPatch,
    at_once: int,
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
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


NOTHING = np.empty(0, np.int32)
GOOD = ImagePostings(
    "a.jpg",
    {"width": 3},
    np.array([0, 4, 9], np.int32),
    np.array([1, 15, 3], np.int32),
    np.array([-1, 0, 2], np.int16),
    Inputs(np.ones((2, 4), np.float32), np.array([9], np.int32), np.array([1], np.int16)),
)


def checked(folder: Path, *changes: Change) -> None:
    with open_writer(folder) as writer:
        end = writer.write([])
        try:
            writer.check(changes)
        except InputError:
            with pytest.raises(InputError):
                writer.write(changes)
            assert writer.write([]) == end
            raise
        writer.write(changes)


def test_good_changes_are_written(built: Path) -> None:
    none = Inputs(np.empty((0, 4), np.float32), NOTHING, NOTHING.astype(np.int16))
    empty = ImagePostings("é" * 16_383, {}, NOTHING, NOTHING, NOTHING.astype(np.int16), none)
    described = MetadataChange("a.jpg", {"é": [1, None]})
    checked(built, Add(GOOD), described, Delete("a.jpg"), Add(empty))


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"terms": [0, 4, 999]}, "a term is not one of the"),
        ({"terms": [-1, 4, 9]}, "a term is not one of the"),
        ({"terms": [4, 4, 9]}, "its terms do not rise"),
        ({"terms": [4, 9]}, "other numbers of terms, impacts and positions"),
        ({"impacts": [0, 1, 1]}, "an impact is not from 1 to 255"),
        ({"impacts": [256, 1, 1]}, "an impact is not from 1 to 255"),
        ({"positions": [3, 0, 0]}, "a term was won by a position that it lacks"),
        ({"positions": [-2, 0, 0]}, "a term was won by a position that it lacks"),
        ({"label_terms": [999]}, "a label token is not one of the"),
        ({"label_regions": [2]}, "a label token is of a region that it lacks"),
        ({"label_regions": []}, "other numbers of label tokens and of their regions"),
    ],
)
def test_images_that_do_not_fit_are_named(
    built: Path, part: dict[str, list[int]], problem: str
) -> None:
    arrays: dict[str, Any] = {name: np.array(value, np.int32) for name, value in part.items()}
    if arrays.keys() & {"label_terms", "label_regions"}:
        arrays = {"inputs": replace(GOOD.inputs, **arrays)}
    with pytest.raises(InputError, match=rf"^image 'a.jpg' cannot be written: .*{problem}"):
        checked(built, Delete("x"), Add(replace(GOOD, **arrays)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (Delete(""), "image id '' has 0 bytes"),
        (Delete("é" * 16_384), "has 32768 bytes, not 1 to 32766"),
        (Delete("\udcff"), "is not UTF-8 text"),
        (MetadataChange("b", {}), "index has no image 'b'"),
        (Add(replace(GOOD, metadata={"a": float("nan")})), "metadata of 'a.jpg' cannot be JSON"),
        (Add(replace(GOOD, metadata={"a": object()})), "metadata of 'a.jpg' cannot be JSON"),
    ],
)
def test_ids_and_metadata_that_cannot_be_stored(built: Path, change: Change, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        checked(built, change)


def test_changes_are_checked_in_their_order(built: Path, small: Postings) -> None:
    first = small.ids[0]
    with pytest.raises(InputError, match=rf"has no image '{first}'"):
        checked(built, Delete(first), MetadataChange(first, {}))
