"""Filters written as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from indexer.filters.expression import (
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
from indexer.filters.json_form import read_filter

CANON: dict[str, Any] = {"key": "camera", "match": {"text": "canon"}}
IS_CANON = Match(field="camera", values=("canon",), mode="text")
PARIS = {"lat": 48.85, "lon": 2.35}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (CANON, IS_CANON),
        ({"must": [CANON]}, IS_CANON),
        ({"must": CANON}, IS_CANON),
        ({"should": [CANON]}, IS_CANON),
        ({"must_not": [CANON]}, Not(IS_CANON)),
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
def test_examples(written: Any, meant: Filter) -> None:
    assert read_filter(written) == meant


def nested(levels: int) -> Any:
    return {"must": [nested(levels - 1)]} if levels else CANON


@pytest.mark.parametrize(
    ("written", "where", "reason"),
    [
        ([], None, "give an object"),
        ({}, None, "give must, should and must_not, or a condition"),
        ({"must": []}, "must", "the list is empty"),
        ({"must": [1]}, "must[0]", "give an object"),
        ({"must": [CANON, {"key": "a"}]}, "must[1]", "give must, should"),
        ({"must": [CANON], "min_should": 1}, None, "'min_should' is unknown"),
        ({"key": "a", "match": {"value": 1}, "range": {"gt": 1}}, None, "a condition: a key with"),
        ({"key": "a", "match": {"value": 1}, "boost": 1}, None, "'boost' is unknown"),
        ({"match": {"value": 1}}, None, "the name of a field as key"),
        ({"key": "", "match": {"value": 1}}, None, "the name of a field as key"),
        ({"key": "a", "match": {}}, "match", "give one of value"),
        ({"key": "a", "match": {"phrase": "x"}}, "match", "'phrase' is unknown"),
        ({"key": "a", "match": {"any": []}}, "match.any", "a list of values"),
        ({"key": "a", "match": {"any": "x"}}, "match.any", "a list of values"),
        ({"key": "a", "match": {"value": None}}, "match.value", "a text, a number, true"),
        ({"key": "a", "match": {"value": float("nan")}}, "match.value", "a text, a number, true"),
        ({"key": "a", "match": {"value": 10**400}}, "match.value", "a text, a number, true"),
        ({"key": "a", "match": {"text": 1}}, "match.text", "give a text"),
        ({"must": {"key": "a", "range": {}}}, "must.range", "give one of gt"),
        ({"key": "a", "range": {"above": 1}}, "range", "'above' is unknown"),
        ({"key": "a", "range": {"gt": []}}, "range.gt", "a text, a number"),
        ({"is_empty": {"key": "a", "x": 1}}, "is_empty", "'x' is unknown"),
        ({"is_empty": "a"}, "is_empty", "give an object"),
        ({"key": "a", "geo_radius": {"radius": 1}}, "geo_radius.center", "give an object"),
        ({"key": "a", "geo_radius": {"center": PARIS}}, "geo_radius.radius", "give a number"),
        ({"key": "a", "geo_radius": {"center": {"lat": True, "lon": 1}, "radius": 1}},
         "geo_radius.center.lat", "give a number"),
    ],
)  # fmt: skip
def test_errors_name_the_path(written: Any, where: str | None, reason: str) -> None:
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
