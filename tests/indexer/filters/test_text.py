"""Filters written as text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.filters.expression import (
    MAX_CONDITIONS,
    MAX_DEPTH,
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
from indexer.filters.text import MAX_LENGTH, parse_filter, pointed
from tests.indexer.filters.drawn import FILTERS, as_text


def text(name: str, *values: str) -> Match:
    return Match(field=name, values=values, mode="text")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("camera:canon", text("camera", "canon")),
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
        ("a:1 (b:2)", All((text("a", "1"), text("b", "2")))),
        ("(a:1)OR(b:2)", AnyOf((text("a", "1"), text("b", "2")))),
        ("ORder:1", text("ORder", "1")),
        ("folder:a-b/c.d,e", text("folder", "a-b/c.d,e")),
    ],
)  # fmt: skip
def test_examples(written: str, meant: Filter) -> None:
    assert parse_filter(written) == meant


@settings(max_examples=300)
@given(whole=FILTERS)
def test_a_filter_is_read_as_it_was_written(whole: Filter) -> None:
    assert parse_filter(as_text(whole)) == whole


@pytest.mark.parametrize(
    ("written", "column", "reason"),
    [
        ("", 1, "a condition is missing"),
        ("  ", 3, "a condition is missing"),
        ("camera", 1, "write field:value"),
        ("a:1 dog", 5, "write field:value"),
        (":x", 1, "write field:value"),
        ("a:", 3, "a value is missing"),
        ("a:1 b:|", 7, "a value is missing"),
        ("a:1|", 5, "a value is missing"),
        ("a:..", 5, "a value is missing"),
        ("a:= b", 4, "a value is missing"),
        ('a:"b', 3, 'no " that closes'),
        ("(a:1 b:2", 1, r"no \) that closes"),
        ("a:1) b:2", 4, r"no \( that this"),
        ("a:1 OR", 7, "a condition is missing"),
        ("()", 2, "a condition is missing"),
        ("-" * 20 + "a:1", 12, "more than 10 levels"),
        ("(" * 20 + "a:1", 12, "more than 10 levels"),
        ("*:1", 1, "write field:value"),
    ],
)
def test_errors_name_the_column(written: str, column: int, reason: str) -> None:
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
