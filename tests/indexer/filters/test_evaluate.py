"""Filters over columns let through what the reference lets through, image by image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.fields.part import FieldPart
from indexer.fields.writer import FieldWriter
from indexer.filters import words as words_module
from indexer.filters.evaluate import distances, evaluate
from indexer.filters.expression import Filter, FilterError
from indexer.filters.json_form import read_filter
from indexer.filters.text import parse_filter
from indexer.filters.words import matching
from tests.indexer.filters.drawn import FILTERS, IMAGES, as_json
from tests.reference.filters import lets_through

KINDS = {"camera": "keyword", "tags": "keyword", "my field": "keyword"}


def part_of(images: list[dict[str, Any]], **kinds: Any) -> FieldPart:
    writer = FieldWriter(kinds)
    writer.add([f"a/{number}.jpg" for number in range(len(images))], images)
    return writer.part()


@settings(max_examples=400)
@given(images=st.lists(IMAGES, min_size=1, max_size=12), whole=FILTERS)
def test_filters_agree_with_the_reference(images: list[dict[str, Any]], whole: Filter) -> None:
    part = part_of(images, **KINDS)
    right = [lets_through(whole, fields) for fields in images]
    assert evaluate(whole, part).tolist() == right
    assert evaluate(read_filter(as_json(whole)), part).tolist() == right


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.text("aAé1_ É犬", max_size=8), min_size=1, max_size=12, unique=True),
    wanted=st.text("aé1 É犬-", min_size=1, max_size=4),
)
def test_words_are_found_alike_among_few_and_many(
    words: list[str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = part_of([{"camera": words}], camera="keyword").columns["camera"].folded
    assert folded.to_pylist() == [word.lower() for word in sorted(words)]
    few = matching(folded, wanted, "text")
    monkeypatch.setattr(words_module, "MANY", 0)
    assert matching(folded, wanted, "text").tolist() == few.tolist()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("path:1.jpg", [1]),
        ("path:=a/1.JPG", [1]),
        ("folder:a", [0, 1, 2]),
        ("camera:canon", [0, 1]),
        ("camera:=canon", []),
        ("camera:nikon OR iso:400", [0, 2]),
        ("location:48.8,2.3~10km", [0]),
        ("location:48,2..49,3", [0]),
        ("favourite:YES", [1]),
        ("favourite:0", [0]),
        ("-favourite:*", [2]),
        ("taken:2024", [0]),
        ("taken:2024-02-30T25", None),
        ("rating:5", [2]),
        ("mixed:true", [0]),
        ("mixed:1", [1]),
        ("mixed:0.5", [2]),
    ],
)
def test_what_people_write(text: str, found: list[int] | None) -> None:
    images = [
        {"make": "Canon", "model": "Canon EOS 5D", "iso": 400, "taken": "2024-05-01",
         "latitude": 48.85, "longitude": 2.35, "favourite": False, "mixed": True},
        {"make": "Canon", "model": "EOS 6D", "favourite": True, "mixed": 1, "latitude": 1},
        {"model": "NIKON Z 6", "rating": 5, "mixed": 0.5, "latitude": "x", "longitude": 1},
    ]  # fmt: skip
    part = part_of(images)
    if found is None:
        with pytest.raises(FilterError, match="dates such as"):
            evaluate(parse_filter(text), part)
    else:
        assert np.flatnonzero(evaluate(parse_filter(text), part)).tolist() == found


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a:1 iso:many", 5, "iso is a field of kind number: it has numbers, 'many' is none"),
        ("iso:1..x", 1, "has numbers"),
        ("iso:4*", 1, "kind number: it cannot be matched so"),
        ("taken:soon", 1, "kind date: it has dates such as 2024, .*, not 'soon'"),
        ("taken:>x", 1, "has dates"),
        ("a:1..2", 1, "kind keyword: it has no range"),
        ("yes:maybe", 1, "kind boolean: it is true or false, not 'maybe'"),
        ("yes:1..2", 1, "has no range"),
        ("at:paris", 1, "kind geo: it cannot be matched so"),
        ("a:1,2~3km", 1, "kind keyword: it has no points"),
        ("iso:1,2..3,4", 1, "kind number: it has no points"),
    ],
)
def test_conditions_that_do_not_fit(text: str, column: int, reason: str) -> None:
    images = [{"a": "x", "iso": 1, "taken": "2024-01-01", "yes": True, "at": {"lat": 1, "lon": 2}}]
    with pytest.raises(FilterError, match=reason) as raised:
        evaluate(parse_filter(text), part_of(images))
    assert raised.value.where == column


def test_distances_are_along_the_earth() -> None:
    places = np.array([[48.8566, 2.3522], [51.5074, -0.1278], [0.0, 180.0], [0.0, -180.0]])
    found = distances(places, 48.8566, 2.3522)
    assert found[0] == 0
    assert found[1] == pytest.approx(343_556, rel=1e-4)  # Paris to London
    assert distances(places, 0, 179.0)[2:] == pytest.approx([111_195] * 2, rel=1e-4)


def test_a_part_is_as_its_file(tmp_path: Path) -> None:
    images: list[dict[str, Any]] = [
        {"a": "x", "iso": 1.5, "taken": "2024-01-01", "yes": True, "at": {"lat": 1, "lon": 2}},
        {"a": ["y", "x", "x"], "yes": False},
        {},
    ]
    writer = FieldWriter()
    writer.add(["1", "2", "b/3"], images)
    writer.write(tmp_path)
    opened, made = FieldPart.open(tmp_path), writer.part()
    assert opened.images == made.images == 3
    assert (
        opened.columns.keys()
        == made.columns.keys()
        == {"a", "at", "folder", "iso", "path", "taken", "yes"}
    )
    for name, column in opened.columns.items():
        other = made.columns[name]
        assert column.kind == other.kind
        np.testing.assert_array_equal(column.starts, other.starts)
        np.testing.assert_array_equal(column.values, other.values)
        assert (column.words is None) == (other.words is None)
        assert column.words is None or column.words.equals(other.words)
    assert opened.columns["a"].starts.tolist() == [0, 1, 3, 3]
