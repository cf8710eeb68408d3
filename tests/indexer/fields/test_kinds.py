"""Kinds of values."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.fields.kinds import as_keyword, as_number, as_point, declared_kinds
from sparta.errors import InputError


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("x", "x"),
        (1, "1"),
        (1.5, "1.5"),
        (True, "true"),
        (None, None),
        ("\ud800", None),
        ([], None),
    ],
)
def test_keywords(value: Any, word: str | None) -> None:
    assert as_keyword(value) == word


@pytest.mark.parametrize("value", ["1", True, float("nan"), float("inf"), 10**400, None])
def test_what_is_no_number(value: Any) -> None:
    assert as_number(value) is None


@pytest.mark.parametrize(
    "value",
    [
        {"lat": 1},
        {"lat": 91, "lon": 1},
        {"lat": 1, "lon": 181},
        {"lat": "1", "lon": 1},
        [1, 2],
        "1,2",
    ],
)
def test_what_is_no_point(value: Any) -> None:
    assert as_point(value) is None
    assert as_point({"lat": -90, "lon": 180}) == (-90, 180)


def test_kinds_are_declared() -> None:
    assert declared_kinds(["rating=number", "a=b=keyword"]) == {
        "rating": "number",
        "a=b": "keyword",
    }
    for text in ("rating", "rating=int", "=number"):
        with pytest.raises(InputError, match=f"--field {text}: give a field and its kind"):
            declared_kinds([text])
