"""Filters → the images that they let through."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from indexer.fields.dates import Period, period
from indexer.fields.part import FieldColumn, FieldPart
from indexer.filters.expression import (
    All,
    AnyOf,
    Condition,
    Filter,
    FilterError,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Not,
    Range,
    Scalar,
)

EARTH = 6_371_008.8  # metres, the mean radius (IUGG)
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Flags = NDArray[np.bool_]


def evaluate(whole: Filter, part: FieldPart) -> Flags:
    """[N] which documents of a part a filter lets through.

    Raises:
        FilterError: if a condition does not fit the kind of its field.
    """
    if isinstance(whole, All):
        return reduce(np.logical_and, (evaluate(one, part) for one in whole.parts))
    if isinstance(whole, AnyOf):
        return reduce(np.logical_or, (evaluate(one, part) for one in whole.parts))
    if isinstance(whole, Not):
        return ~evaluate(whole.part, part)
    column = part.columns.get(whole.field)
    if isinstance(whole, IsEmpty):
        return np.ones(part.images, np.bool_) if column is None else ~column.filled
    if column is None:
        return np.zeros(part.images, np.bool_)
    return column.having(_chosen(whole, column))


def _chosen(condition: Condition, column: FieldColumn) -> Flags:
    """[M] which values fulfil a condition."""
    if isinstance(condition, Match):
        compare = _MATCHES.get(column.kind)
        if compare is None or (condition.mode == "prefix" and column.kind != "keyword"):
            raise _unfit(condition, column, "cannot be matched so")
        found = (compare(condition, value, column) for value in condition.values)
        return reduce(np.logical_or, found)
    if isinstance(condition, Range):
        return _within(condition, column)
    if column.kind != "geo":
        raise _unfit(condition, column, "has no points")
    points: NDArray[np.float64] = column.values
    if isinstance(condition, GeoRadius):
        return _in_radius(condition, points)
    assert isinstance(condition, GeoBox)
    return _in_box(condition, points)


def _match_keyword(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    from indexer.filters.words import matching  # loads what a search without filters does not need

    if not isinstance(value, str):
        value = str(value).lower() if isinstance(value, bool) else f"{value:.16g}"
    chosen: Flags = matching(column.folded, value, condition.mode)[column.values]
    return chosen


def _match_number(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    found: Flags = column.values == _number(condition, value, column)
    return found


def _match_date(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    start, end = _period(condition, value, column)
    found: Flags = (column.values >= start) & (column.values < end)
    return found


def _match_boolean(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    wanted = value if isinstance(value, bool) else _TRUTHS.get(str(value).lower())
    if wanted is None:
        raise _unfit(condition, column, f"is true or false, not {str(value)[:60]!r}")
    found: Flags = column.values == wanted
    return found


_MATCHES: dict[str, Callable[[Match, Scalar, FieldColumn], Flags]] = {
    "keyword": _match_keyword,
    "number": _match_number,
    "date": _match_date,
    "boolean": _match_boolean,
}


def _within(condition: Range, column: FieldColumn) -> Flags:
    """The values between the bounds; a date after a period is one from its end on."""
    found = np.ones(len(column.values), np.bool_)
    values = column.values
    if column.kind == "number":
        for bound, compare in (
            (condition.gt, np.greater),
            (condition.gte, np.greater_equal),
            (condition.lt, np.less),
            (condition.lte, np.less_equal),
        ):
            if bound is not None:
                found &= compare(values, _number(condition, bound, column))
    elif column.kind == "date":
        if condition.gt is not None:
            found &= values >= _period(condition, condition.gt, column).end
        if condition.gte is not None:
            found &= values >= _period(condition, condition.gte, column).start
        if condition.lt is not None:
            found &= values < _period(condition, condition.lt, column).start
        if condition.lte is not None:
            found &= values < _period(condition, condition.lte, column).end
    else:
        raise _unfit(condition, column, "has no range; numbers and dates have")
    return found


def _number(condition: Condition, value: Scalar, column: FieldColumn) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise _unfit(condition, column, f"has numbers, {str(value)[:60]!r} is none") from None


def _period(condition: Condition, value: Scalar, column: FieldColumn) -> Period:
    found = period(str(value))
    if found is None:
        reason = f"has dates such as 2024, 2024-06 or 2024-06-01T18:30, not {str(value)[:60]!r}"
        raise _unfit(condition, column, reason)
    return found


def _unfit(condition: Condition, column: FieldColumn, reason: str) -> FilterError:
    name = condition.field[:60]
    return FilterError(f"{name} is a field of kind {column.kind}: it {reason}", condition.where)


def _in_radius(circle: GeoRadius, points: NDArray[np.float64]) -> Flags:
    """The points at most so far from the centre; only those near it are computed."""
    # Somewhat larger, so that rounding leaves no point out.
    angle = np.degrees(circle.metres / EARTH) * 1.001 + 1e-6
    found: Flags = np.abs(points[:, 0] - circle.lat) <= angle
    near = np.flatnonzero(found)
    found[near] = distances(points[near], circle.lat, circle.lon) <= circle.metres
    return found


def distances(points: NDArray[np.float64], lat: float, lon: float) -> NDArray[np.float64]:
    """Metres from each point [M, 2] to another along the earth, by the haversine formula."""
    phi, lam = np.radians(points[:, 0]), np.radians(points[:, 1])
    height = np.sin((phi - np.radians(lat)) / 2) ** 2
    width = np.sin((lam - np.radians(lon)) / 2) ** 2
    share = height + np.cos(phi) * np.cos(np.radians(lat)) * width
    metres: NDArray[np.float64] = 2 * EARTH * np.arcsin(np.sqrt(np.clip(share, 0, 1)))
    return metres


def _in_box(box: GeoBox, points: NDArray[np.float64]) -> Flags:
    lat, lon = points[:, 0], points[:, 1]
    east_of, west_of = lon >= box.west, lon <= box.east
    across = east_of & west_of if box.west <= box.east else east_of | west_of
    found: Flags = (lat >= box.south) & (lat <= box.north) & across
    return found
