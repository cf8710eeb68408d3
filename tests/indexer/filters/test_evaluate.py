"""Filters over fields, against the reference, image by image, and what fields cannot."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.fields.columns import FieldPart, FieldWriter, part_of
from indexer.filters import evaluate as words_module
from indexer.filters.browse import Order, count_values
from indexer.filters.evaluate import FieldIndex
from indexer.filters.expression import (
    All,
    AnyOf,
    Filter,
    FilterError,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Range,
    negated,
)
from indexer.filters.syntax import parse_filter
from tests.reference.filters import lets_through

WORDS = [
    "Canon EOS 5D",
    "canon",
    "Nikon Z_6",
    "nikon",
    "été 2024/raw",
    "raw",
    'say "cheese"',
    "back\\slash",
    "a..b",
    "(x|y)*",
    "OR",
    "-",
]
DATES = ["2023-12-31", "2024-06-01", "2024-06-30T23:59:59", "2024-07-01 08:15:00", "2025-01-01"]
PERIODS = ["2023", "2024", "2024-06", "2024-06-30", "2024-06-30T23", "2024-07-01T08:15", "2025-01"]
NUMBERS = [-1, 0, 0.5, 100, 400, 6400]
PLACES = [0.0, 48.8, -33.9, 90.0]
KEYWORDS = ["camera", "tags", "my field"]

_words = st.sampled_from(WORDS)
_point = st.builds(lambda lat, lon: {"lat": lat, "lon": lon}, *[st.sampled_from(PLACES)] * 2)
IMAGES = st.fixed_dictionaries(
    {},
    optional={
        "camera": _words,
        "my field": _words | st.none(),
        "tags": st.lists(_words, max_size=3),
        "iso": st.sampled_from(NUMBERS),
        "taken": st.sampled_from(DATES),
        "favourite": st.booleans(),
        "location": _point,
    },
)


def _matches(field: str, values: list[str], modes: list[str]) -> st.SearchStrategy[Filter]:
    several = st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)
    return st.builds(Match, field=st.just(field), values=several, mode=st.sampled_from(modes))


def _ranges(field: str, values: list[str]) -> st.SearchStrategy[Filter]:
    bound, named = st.sampled_from(values), st.just(field)
    one = [st.builds(Range, field=named, **{name: bound}) for name in ("gt", "gte", "lt", "lte")]
    return st.one_of(*one, st.builds(Range, field=named, gte=bound, lte=bound))


def _located() -> st.SearchStrategy[Filter]:
    named, side = st.just("location"), st.sampled_from([-180.0, -34.5, 0.0, 48.5, 170.25])
    metres = st.sampled_from([0.0, 1.5, 1000.0, 12_000_000.0])
    circle = st.builds(GeoRadius, field=named, lat=st.sampled_from(PLACES), lon=side, metres=metres)
    lat = st.sampled_from([-90.0, -34.5, 0.0, 48.5, 90.0])
    box = st.builds(GeoBox, field=named, south=lat, west=side, north=lat, east=side)
    return circle | box


NAMES = [*KEYWORDS, "iso", "taken", "favourite", "location"]
CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    *[_matches(name, WORDS, ["value", "text", "prefix"]) for name in KEYWORDS],
    _matches("iso", [str(number) for number in NUMBERS], ["value", "text"]),
    _ranges("iso", [str(number) for number in NUMBERS]),
    _matches("taken", PERIODS, ["value", "text"]),
    _ranges("taken", PERIODS),
    _matches("favourite", ["true", "no"], ["value", "text"]),
    _located(),
    st.builds(IsEmpty, field=st.sampled_from(NAMES)),
)


def _combined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return inner.map(negated) | several.map(All) | several.map(AnyOf)


FILTERS = st.recursive(CONDITIONS, _combined, max_leaves=6)


Images = list[dict[str, Any]]
KINDS: Any = {"camera": "keyword", "tags": "keyword", "my field": "keyword"}
PARTS = st.lists(st.lists(IMAGES, min_size=1, max_size=6), min_size=1, max_size=3)
FULL = {"camera": "x", "my field": "x", "tags": "x", "iso": 1, "taken": "2024-01-01",
        "favourite": True, "location": {"lat": 1, "lon": 1}}  # fmt: skip


def index_of(parts: list[Images]) -> FieldIndex:
    """Parts of images whose ids rise with their numbers."""
    ids = iter(map("{:03d}.jpg".format, range(1000)))
    return FieldIndex([part_of([(next(ids), one) for one in images], KINDS) for images in parts])


def from_file(images: Images) -> FieldPart:
    """The fields of images, written and read."""
    writer = FieldWriter(KINDS)
    writer.add([f"{number:03d}.jpg" for number in range(len(images))], images)
    with TemporaryDirectory() as folder:
        writer.write(Path(folder))
        return FieldPart.open(Path(folder))


@settings(max_examples=300)
@given(parts=PARTS, whole=FILTERS)
def test_filters_over_parts_agree_with_the_reference(parts: list[Images], whole: Filter) -> None:
    fields = index_of([[FULL], *parts])
    images = [FULL, *(image for part in parts for image in part)]
    right = [lets_through(whole, one) for one in images]
    assert fields.allowed(whole).tolist() == right
    assert FieldIndex([from_file(images)]).allowed(whole).tolist() == right
    again = fields.parts[0].remembered(whole, Mock(side_effect=AssertionError))
    assert again.tolist() == [lets_through(whole, FULL)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("path:1.jpg", [1]),
        ("path:=a/1.JPG", [1]),
        ("path:=mine", [2]),
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
        ("rating:5", [2]),
        ("mixed:true", [0]),
        ("mixed:1", [1]),
        ("mixed:0.5", [2]),
    ],
)
def test_filters_that_people_write_find_what_they_mean(text: str, found: list[int]) -> None:
    images = [
        {"make": "Canon", "model": "Canon EOS 5D", "iso": 400, "taken": "2024-05-01",
         "latitude": 48.85, "longitude": 2.35, "favourite": False, "mixed": True},
        {"make": "Canon", "model": "EOS 6D", "favourite": True, "mixed": 1, "latitude": 1},
        {"model": "NIKON Z 6", "rating": 5, "mixed": 0.5, "latitude": "x", "longitude": 1,
         "path": "mine"},
    ]  # fmt: skip
    fields = FieldIndex([part_of([(f"a/{i}.jpg", one) for i, one in enumerate(images)])])
    assert np.flatnonzero(fields.allowed(parse_filter(text))).tolist() == found


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("a:1 iso:many", 5, "iso is a field of kind number: it has numbers, 'many' is none"),
        ("iso:4*", 1, "kind number: it cannot be matched so"),
        ("taken:soon", 1, "kind date: it has dates such as 2024, .*, not 'soon'"),
        ("a:1..2", 1, "kind keyword: it has no range"),
        ("yes:maybe", 1, "kind boolean: it is true or false, not 'maybe'"),
        ("at:paris", 1, "kind geo: it cannot be matched so"),
        ("a:1,2~3km", 1, "kind keyword: it has no points"),
        ("iso:1,2..3,4", 1, "kind number: it has no points"),
        ("tken:x", 1, "no image has the field 'tken'; there is taken"),
        ("iso:1 zzzzzz:x", 7, "no image has the field 'zzzzzz'; there is a, at, folder, iso"),
    ],
)
def test_conditions_that_do_not_fit_the_fields_are_named(
    text: str, column: int, reason: str
) -> None:
    image = {"a": "x", "iso": 1, "taken": "2024-01-01", "yes": True, "at": {"lat": 1, "lon": 2}}
    with pytest.raises(FilterError, match=reason) as raised:
        FieldIndex([part_of([("b/a.jpg", image)])]).allowed(parse_filter(text))
    assert raised.value.where == column


# ---- facets and orders ---------------------------------------------------------------------------


@pytest.mark.parametrize("facet", ["taken", "taken:week", "location", "camera:year", "nothing"])
def test_what_cannot_be_counted_is_named(facet: str) -> None:
    with pytest.raises(FilterError, match=facet):
        count_values(index_of([[FULL]]), facet, np.ones(1, np.bool_))
    if facet in ("location", "nothing"):
        with pytest.raises(FilterError, match=facet):
            Order(index_of([[FULL]]), f"-{facet}", np.ones(1), str)


# ---- a piece of text in many words ---------------------------------------------------------------


@given(
    words=st.lists(st.text("aAb1_ /éÉ犬", max_size=8), max_size=8, unique=True),
    wanted=st.text("aAb1éÉ犬- ", min_size=1, max_size=4),
)
def test_few_words_many_in_c_and_many_without_are_searched_alike(
    words: list[str], wanted: str
) -> None:
    folded = pa.array([word.lower() for word in words], pa.string())
    found = [words_module.matching(folded, wanted, "text").tolist()]
    for change in ({"MANY": 0}, {"MANY": 0, "find_piece": None}):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in change.items():
                patch.setattr(words_module, name, value)
            found.append(words_module.matching(folded, wanted, "text").tolist())
    assert found[0] == found[1] == found[2]
