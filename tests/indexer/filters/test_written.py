"""Filters written as text and as JSON."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.filters.expression import (
    MAX_CONDITIONS,
    MAX_DEPTH,
    MAX_VALUES,
    All,
    AnyOf,
    Filter,
    FilterError,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Not,
    Range,
)
from indexer.filters.syntax import MAX_LENGTH, parse_filter, pointed, read_filter


def text(name: str, *values: str) -> Match:
    return Match(field=name, values=values, mode="text")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("camera:canon|nikon", text("camera", "canon", "nikon")),
        ('camera:"EOS 5D"', text("camera", "EOS 5D")),
        ('camera:="EOS 5D"', Match(field="camera", values=("EOS 5D",))),
        ("camera:Can*", Match(field="camera", values=("Can",), mode="prefix")),
        ("camera:*", Not(IsEmpty(field="camera"))),
        ("-camera:*", IsEmpty(field="camera")),
        ("camera:=a|b*", AnyOf((Match(field="camera", values=("a",)),
                               Match(field="camera", values=("b",), mode="prefix")))),
        ("taken:2024-06..2024-08", Range(field="taken", gte="2024-06", lte="2024-08")),
        ("taken:2024-06..", Range(field="taken", gte="2024-06")),
        ("taken:..2024-08", Range(field="taken", lte="2024-08")),
        ("taken:2024-06-01T08:30", text("taken", "2024-06-01T08:30")),
        ("f:>2.8", Range(field="f", gt="2.8")),
        ("f:>=2.8", Range(field="f", gte="2.8")),
        ("f:<2.8", Range(field="f", lt="2.8")),
        ("f:<=2.8", Range(field="f", lte="2.8")),
        ("f:-1.5..2.5", Range(field="f", gte="-1.5", lte="2.5")),
        ("at:48.85,2.35~5km", GeoRadius(field="at", lat=48.85, lon=2.35, metres=5000)),
        ("at:-48,2~500m", GeoRadius(field="at", lat=-48, lon=2, metres=500)),
        ("at:48,2..49,-3", GeoBox(field="at", south=48, west=2, north=49, east=-3)),
        ('"my field":"a \\"b\\" \\\\"', text("my field", 'a "b" \\')),
        (" a:1\tb:2 ", All((text("a", "1"), text("b", "2")))),
        ("a:1 OR b:2 c:3", AnyOf((text("a", "1"), All((text("b", "2"), text("c", "3")))))),
        ("-(a:1 OR b:2)", Not(AnyOf((text("a", "1"), text("b", "2"))))),
        ("(a:1)OR(b:2)", AnyOf((text("a", "1"), text("b", "2")))),
        ("ORder:1", text("ORder", "1")),
        ("folder:a-b/c.d,e", text("folder", "a-b/c.d,e")),
    ],
)  # fmt: skip
def test_a_text_means_this_filter(written: str, meant: Filter) -> None:
    assert parse_filter(written) == meant


@pytest.mark.parametrize(
    ("written", "column", "reason"),
    [
        ("", 1, "a condition is missing"),
        ("camera", 1, "write field:value"),
        (":x", 1, "write field:value"),
        ("a:", 3, "a value is missing"),
        ("a:1|", 5, "a value is missing"),
        ("a:..", 5, "a value is missing"),
        ('a:"b', 3, 'no " that closes'),
        ("(a:1 b:2", 1, r"no \) that closes"),
        ("a:1) b:2", 4, r"no \( that this"),
        ("a:1 OR", 7, "a condition is missing"),
        ("()", 2, "a condition is missing"),
        ("-" * 20 + "a:1", 12, "more than 10 levels"),
        ("(" * 20 + "a:1", 12, "more than 10 levels"),
        ("location:91,0~5km", 1, "a latitude is from -90 to 90 degrees, not 91"),
        ("a:1 at:0,-180.5~1m", 5, "a longitude is from -180 to 180 degrees, not -180.5"),
        ("at:-91,0..9,9", 1, "a latitude is"),
        ("at:0,0..90,181", 1, "a longitude is"),
    ],
)
def test_errors_in_texts_name_the_column(written: str, column: int, reason: str) -> None:
    with pytest.raises(FilterError, match=reason) as raised:
        parse_filter(written)
    assert raised.value.where == column
    message, shown, sign = pointed(written, raised.value).split("\n")
    assert message == f"filter, column {column}: {raised.value.reason}"
    assert (shown, sign) == (f"  {written}", " " * (column + 1) + "^")


def test_filters_have_a_size() -> None:
    for written, reason in (
        ("a:1 " * (MAX_CONDITIONS + 1), "101 conditions are too many; 100 are allowed"),
        (" " * (MAX_LENGTH + 1), "2001 characters are too many"),
    ):
        with pytest.raises(FilterError, match=reason) as raised:
            parse_filter(written)
        assert raised.value.where is None
        assert pointed(written, raised.value) == f"filter: {raised.value.reason}"
    nested = "(a:1 " * (MAX_DEPTH - 1) + "b:1" + ")" * (MAX_DEPTH - 1)
    assert isinstance(parse_filter(nested), All)


@settings(max_examples=300)
@given(written=st.text('ab:|*.=<>"\\()-~,1 km\tOR', max_size=30))
def test_any_text_is_a_filter_or_has_an_error_in_it(written: str) -> None:
    try:
        parse_filter(written)
    except FilterError as error:
        assert isinstance(error.where, int) and 1 <= error.where <= len(written) + 1


CANON: dict[str, Any] = {"key": "camera", "match": {"text": "canon"}}
IS_CANON = Match(field="camera", values=("canon",), mode="text")
PARIS = {"lat": 48.85, "lon": 2.35}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (CANON, IS_CANON),
        ({"must": CANON}, IS_CANON),
        ({"should": [CANON]}, IS_CANON),
        ({"must_not": [{"must_not": CANON}]}, IS_CANON),
        (
            {"must": [CANON], "should": [CANON, CANON], "must_not": [CANON]},
            All((IS_CANON, AnyOf((IS_CANON, IS_CANON)), Not(IS_CANON))),
        ),
        ({"key": "iso", "match": {"value": 400}}, Match(field="iso", values=(400,))),
        ({"key": "iso", "match": {"any": [1, "a", True]}},
         Match(field="iso", values=(1, "a", True))),
        ({"key": "iso", "match": {"except": [1]}}, Not(Match(field="iso", values=(1,)))),
        ({"key": "a", "match": {"prefix": "x"}}, Match(field="a", values=("x",), mode="prefix")),
        ({"key": "iso", "range": {"gt": 1, "lte": 2.5}}, Range(field="iso", gt=1, lte=2.5)),
        ({"is_empty": {"key": "camera"}}, IsEmpty(field="camera")),
        (
            {"key": "at", "geo_radius": {"center": PARIS, "radius": 500}},
            GeoRadius(field="at", lat=48.85, lon=2.35, metres=500),
        ),
        (
            {"key": "at", "geo_bounding_box": {"top_left": {"lat": 49, "lon": 2},
                                               "bottom_right": {"lat": 48, "lon": 3}}},
            GeoBox(field="at", south=48, west=2, north=49, east=3),
        ),
    ],
)  # fmt: skip
def test_an_object_means_this_filter(written: Any, meant: Filter) -> None:
    assert read_filter(written) == meant


def nested(levels: int) -> Any:
    return {"must": [nested(levels - 1)]} if levels else CANON


@pytest.mark.parametrize(
    ("written", "where", "reason"),
    [
        ([], None, "give an object"),
        ({}, None, "give must, should and must_not, or a condition"),
        ({"must": []}, "must", "the list is empty"),
        ({"must": [CANON, {"key": "a"}]}, "must[1]", "give must, should"),
        ({"must": [CANON], "min_should": 1}, None, "'min_should' is unknown"),
        ({"key": "a", "match": {"value": 1}, "range": {"gt": 1}}, None, "a condition: a key with"),
        ({"key": "a", "match": {"value": 1}, "boost": 1}, None, "'boost' is unknown"),
        ({"key": "", "match": {"value": 1}}, None, "the name of a field as key"),
        ({"key": "a", "match": {}}, "match", "give one of value"),
        ({"key": "a", "match": {"phrase": "x"}}, "match", "'phrase' is unknown"),
        ({"key": "a", "match": {"any": []}}, "match.any", "a list of values"),
        ({"key": "a", "match": {"value": float("nan")}}, "match.value", "a text, a number, true"),
        ({"key": "a", "match": {"value": 10**400}}, "match.value", "a text, a number, true"),
        ({"key": "a", "match": {"text": 1}}, "match.text", "give a text"),
        ({"must": {"key": "a", "range": {}}}, "must.range", "give one of gt"),
        ({"key": "a", "range": {"gt": []}}, "range.gt", "a text, a number"),
        ({"is_empty": {"key": "a", "x": 1}}, "is_empty", "'x' is unknown"),
        ({"key": "a", "geo_radius": {"center": PARIS}}, "geo_radius.radius", "give a number"),
        ({"key": "a", "geo_radius": {"center": PARIS, "radius": -1}}, "geo_radius", "negative"),
        ({"must": {"key": "a", "geo_radius": {"center": {"lat": -91, "lon": 1}, "radius": 1}}},
         "must.geo_radius", "a latitude is from -90 to 90"),
        ({"key": "a", "geo_bounding_box": {"top_left": PARIS, "bottom_right":
         {"lat": 1, "lon": 1e9}}}, "geo_bounding_box", "a longitude is"),
        ({"key": "a", "geo_radius": {"center": {"lat": True, "lon": 1}, "radius": 1}},
         "geo_radius.center.lat", "give a number"),
    ],
)  # fmt: skip
def test_errors_in_objects_name_the_path(written: Any, where: str | None, reason: str) -> None:
    with pytest.raises(FilterError, match=reason) as raised:
        read_filter(written)
    assert raised.value.where == where
    assert str(raised.value).startswith("filter: " if where is None else f"filter, {where}: ")


def test_filters_have_a_depth() -> None:
    assert read_filter(nested(10)) == IS_CANON
    for levels in (11, 500):
        with pytest.raises(FilterError, match="more than 10 levels"):
            read_filter(nested(levels))
    with pytest.raises(FilterError, match="101 conditions are too many"):
        read_filter({"must": [CANON] * 101})
    numbers = list(range(MAX_VALUES + 1))
    with pytest.raises(FilterError, match="1001 values are too many; 1000 are allowed"):
        read_filter({"key": "iso", "match": {"any": numbers}})
