"""Changes that an index cannot take are refused, and nothing is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.grounding import Inputs
from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.postings import ImagePostings
from indexer.update.checks import ChangeCheck
from sparta.errors import InputError

CHECK = ChangeCheck(Path("index"), vocabulary=10, largest=15)
GOOD = ImagePostings(
    "a.jpg",
    {"width": 3},
    np.array([0, 4, 9], np.int32),
    np.array([1, 15, 3], np.int32),
    np.array([-1, 0, 2], np.int16),
    Inputs(np.ones((2, 4), np.float32), np.array([9], np.int32), np.array([1], np.int16)),
)


def check(*changes: Change, has: bool = False) -> None:
    CHECK(changes, lambda _: has)


def test_good_changes_pass() -> None:
    check(Add(GOOD), MetadataChange("a.jpg", {"é": [1, None]}), Delete("a.jpg"), Delete("b"))
    check(MetadataChange("b", {}), has=True)
    nothing = np.empty(0, np.int32)
    none = Inputs(np.empty((0, 4), np.float32), nothing, nothing.astype(np.int16))
    check(Add(ImagePostings("é" * 16_383, {}, nothing, nothing, nothing.astype(np.int16), none)))


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ({"terms": [0, 4, 10]}, "a term is not one of the 10"),
        ({"terms": [-1, 4, 9]}, "a term is not one of the 10"),
        ({"terms": [4, 4, 9]}, "its terms do not rise"),
        ({"terms": [4, 9]}, "other numbers of terms, impacts and positions"),
        ({"impacts": [0, 1, 1]}, "an impact is not from 1 to 15"),
        ({"impacts": [16, 1, 1]}, "an impact is not from 1 to 15"),
        ({"positions": [3, 0, 0]}, "a term was won by a position that it lacks"),
        ({"positions": [-2, 0, 0]}, "a term was won by a position that it lacks"),
        ({"label_terms": [10]}, "a label token is not one of the 10"),
        ({"label_regions": [2]}, "a label token is of a region that it lacks"),
        ({"label_regions": []}, "other numbers of label tokens and of their regions"),
    ],
)
def test_images_that_do_not_fit_are_named(part: dict[str, list[int]], problem: str) -> None:
    arrays: dict[str, Any] = {name: np.array(value, np.int32) for name, value in part.items()}
    if arrays.keys() & {"label_terms", "label_regions"}:
        arrays = {"inputs": replace(GOOD.inputs, **arrays)}
    with pytest.raises(InputError, match=rf"^image 'a.jpg' cannot be written: .*{problem}"):
        check(Delete("x"), Add(replace(GOOD, **arrays)))


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
def test_ids_and_metadata_that_cannot_be_stored(change: Change, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        check(change)


def test_changes_are_checked_in_their_order() -> None:
    with pytest.raises(InputError, match=r"has no image 'a\.jpg'"):
        check(Delete("a.jpg"), MetadataChange("a.jpg", {}), has=True)
