"""Filters, facets and orders over several parts are those over one."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.fields.writer import part_of
from indexer.filters.expression import Filter, FilterError
from indexer.filters.facets import count_values, most_frequent
from indexer.filters.field_index import FieldIndex
from indexer.filters.sorting import Order
from indexer.filters.text import parse_filter
from tests.indexer.filters.drawn import FILTERS, IMAGES
from tests.reference.filters import lets_through

Images = list[dict[str, Any]]
KINDS: Any = {"camera": "keyword", "tags": "keyword", "my field": "keyword"}


def index_of(parts: list[Images]) -> FieldIndex:
    """Parts of images whose ids rise with their numbers."""
    ids = iter(map("{:03d}.jpg".format, range(1000)))
    return FieldIndex([part_of([(next(ids), one) for one in images], KINDS) for images in parts])


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


PARTS = st.lists(st.lists(IMAGES, min_size=1, max_size=6), min_size=1, max_size=3)
FULL = {"camera": "x", "my field": "x", "tags": "x", "iso": 1, "taken": "2024-01-01",
        "favourite": True, "location": {"lat": 1, "lon": 1}}  # fmt: skip


def test_deleted_images_are_not_let_through() -> None:
    parts = index_of([[FULL], [{}, FULL]]).parts
    live = np.array([True, True, False])
    assert FieldIndex(parts, live).allowed(parse_filter("iso:1")).tolist() == [True, False, False]
    assert FieldIndex(parts, live).allowed(parse_filter("-iso:1")).tolist() == [False, True, False]


def test_a_shard_whose_images_are_all_deleted_lets_none_through() -> None:
    shard = FieldIndex([], None).among(KINDS)
    assert shard.allowed(parse_filter("camera:x")).tolist() == []


@settings(max_examples=100)
@given(parts=PARTS, whole=FILTERS)
def test_parts_are_one_after_another(parts: list[Images], whole: Filter) -> None:
    fields = index_of([[FULL], *parts])
    images = [FULL, *(image for part in parts for image in part)]
    assert fields.allowed(whole).tolist() == [lets_through(whole, one) for one in images]
    again = fields.parts[0].remembered(whole, Mock(side_effect=AssertionError))
    assert again.tolist() == [lets_through(whole, FULL)]


@settings(max_examples=100)
@given(parts=PARTS, data=st.data())
def test_facets_are_counts(parts: list[Images], data: st.DataObject) -> None:
    fields = index_of([[FULL], *parts])
    images = [FULL, *(image for part in parts for image in part)]
    found = np.array([data.draw(st.booleans()) for _ in images])
    chosen = [image for image, flag in zip(images, found, strict=True) if flag]
    for facet in ("camera", "tags", "iso", "favourite", "taken:year", "taken:month", "taken:day"):
        name, _, interval = facet.partition(":")
        length = {"year": 4, "month": 7, "day": 10}.get(interval)
        counts = Counter(
            v[:length] if length else v for i in chosen for v in set(listed(i.get(name)))
        )
        buckets = most_frequent(count_values(fields, facet, found), facet)
        assert dict(buckets) == counts
        if length:
            assert buckets == sorted(buckets)
        else:
            assert [b.images for b in buckets] == sorted(counts.values(), reverse=True)


@settings(max_examples=100)
@given(parts=PARTS, count=st.integers(1, 20), data=st.data())
def test_orders_are_those_of_sorting(parts: list[Images], count: int, data: st.DataObject) -> None:
    fields = index_of([[FULL], *parts])
    images = [FULL, *(image for part in parts for image in part)]
    found = np.array([data.draw(st.booleans()) for _ in images])
    for name in ("camera", "tags", "iso", "taken", "favourite"):
        values = {
            place: [str(v).replace(" ", "T") if name == "taken" else v for v in listed(own)]
            for place, own in enumerate([image.get(name) for image in images])
            if found[place]
        }
        having = [place for place in values if values[place]]
        rising = sorted(having, key=lambda place: min(values[place]))
        falling = sorted(having, key=lambda place: max(values[place]), reverse=True)
        falling.sort(key=lambda place: max(values[place]), reverse=True)
        without = [place for place in values if not values[place]]
        for order, right in ((name, rising), (f"-{name}", falling)):
            ordered = Order(fields, order, np.zeros(len(images)), "{:03d}.jpg".format)
            assert ordered.first(found, count) == (right + without)[:count]
            assert [ordered.value(place) is None for place in values] == [
                place in without for place in values
            ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("camra:x", "column 1: no image has the field 'camra'; there is camera"),
        ("iso:1 zzzzzz:x", "column 7: no image has the field 'zzzzzz'; there is camera, favourite"),
    ],
)
def test_unknown_fields(text: str, reason: str) -> None:
    with pytest.raises(FilterError, match=reason):
        index_of([[FULL]]).allowed(parse_filter(text))


@pytest.mark.parametrize("facet", ["taken", "taken:week", "location", "camera:year", "nothing"])
def test_what_cannot_be_counted(facet: str) -> None:
    with pytest.raises(FilterError, match=facet):
        count_values(index_of([[FULL]]), facet, np.ones(1, np.bool_))


@pytest.mark.parametrize("order", ["location", "-nothing"])
def test_what_has_no_order(order: str) -> None:
    with pytest.raises(FilterError, match=order.removeprefix("-")):
        Order(index_of([[FULL]]), order, np.ones(1), str)
