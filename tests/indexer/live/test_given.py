"""The record of what the user gave: by content, the newest last, whole or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from indexer.live.given import FILE, Given, read_given, with_given, write_given
from indexer.live.log import ChangeLog
from sparta.errors import InputError


def test_what_is_given_later_adds_to_the_same_content(tmp_path: Path) -> None:
    assert read_given(tmp_path) == {}
    first = Given(10, {"a": 1, "b": 2}, {"a": 1}, sent="photo")
    write_given(tmp_path, {"x": [first], "y": [Given(None, deleted=True)]})
    write_given(tmp_path, {"x": [Given(20, {"c": 3}), Given(10, {"b": None})]})
    assert read_given(tmp_path) == {
        "x": [
            Given(20, {"c": 3}),
            Given(10, {"a": 1, "b": None}, {"a": 1}, sent="photo"),
        ],
        "y": [Given(None, deleted=True)],
    }
    write_given(tmp_path, {"x": [Given(10, sent="")], "y": [Given(None, {"d": 4})]})
    found = read_given(tmp_path)
    assert found["x"][-1].sent == "" and found["x"][-1].fields["a"] == 1
    assert found["y"] == [Given(None, {"d": 4})]


@pytest.mark.parametrize(
    ("size", "other", "fits"), [(1, 1, True), (1, 2, False), (None, 2, True), (1, None, True)]
)
def test_an_unknown_size_fits_every_content(size: Any, other: Any, fits: bool) -> None:
    assert Given(size).fits(other) == fits


def test_given_values_replace_those_of_the_file() -> None:
    assert with_given({"a": 1, "b": 2}, {"b": None, "c": 3}, {"c": 4}) == {"a": 1, "c": 4}


def test_an_unfinished_record_was_never_acknowledged(tmp_path: Path) -> None:
    write_given(tmp_path, {"x": [Given(1, {"a": 1})]})
    whole = (tmp_path / FILE).read_bytes()
    write_given(tmp_path, {"y": [Given(1, {"a": 1})]})
    both = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(both[:-1])
    assert list(read_given(tmp_path)) == ["x"]
    (tmp_path / FILE).write_bytes(b"?" + both[1:])
    with pytest.raises(InputError, match=rf"{FILE} is damaged"):
        read_given(tmp_path)
    (tmp_path / FILE).write_bytes(whole)
    log = ChangeLog(tmp_path / FILE)
    end = log.append([Given(1, {"b": 1}).record("x")])
    log.append([Given(1, {"b": 2}).record("x")])
    log.take_back(end)
    log.sync()
    log.close()
    assert read_given(tmp_path)["x"] == [Given(1, {"a": 1, "b": 1})]
