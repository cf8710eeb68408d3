"""The reference of filters: one image at a time, dates compared as texts; slow, obvious."""

import math
import re
from collections.abc import Mapping
from typing import Any

from indexer.filters.expression import (
    All,
    AnyOf,
    Filter,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Not,
    Range,
    Scalar,
)

DATE = re.compile(r"\d{4}-\d\d-\d\d")
RADIUS = 6_371_008.8


def lets_through(whole: Filter, fields: Mapping[str, Any]) -> bool:
    """Whether a filter lets an image with these fields through."""
    match whole:
        case All(parts):
            return all(lets_through(part, fields) for part in parts)
        case AnyOf(parts):
            return any(lets_through(part, fields) for part in parts)
        case Not(part):
            return not lets_through(part, fields)
    found = fields.get(whole.field)
    values = [
        value for value in (found if isinstance(found, list) else [found]) if value is not None
    ]
    if isinstance(whole, IsEmpty):
        return not values
    return any(_fulfils(whole, value) for value in values)


def _fulfils(condition: Filter, value: Any) -> bool:
    match condition:
        case Match(values=wanted, mode=mode):
            return any(_matches(value, one, mode) for one in wanted)
        case Range():
            return _in_range(condition, value)
        case GeoRadius(lat=lat, lon=lon, metres=metres):
            return _metres(value, lat, lon) <= metres
        case GeoBox(south=south, west=west, north=north, east=east):
            lon = value["lon"]
            across = west <= lon <= east if west <= east else lon >= west or lon <= east
            return south <= value["lat"] <= north and across
    raise AssertionError(condition)


def _matches(value: Any, wanted: Scalar, mode: str) -> bool:
    if isinstance(value, bool):
        return value == (wanted in (True, "true", "yes"))
    if isinstance(value, int | float):
        return value == float(wanted)
    if DATE.match(value):
        return _moment(value).startswith(_moment(str(wanted), False))
    value, wanted = value.lower(), str(wanted).lower()
    if mode == "value":
        return bool(value == wanted)
    if mode == "prefix":
        return bool(value.startswith(wanted))
    pieces, run = _pieces(value), _pieces(wanted)
    if not run:
        return wanted in value
    starts = range(len(pieces) - len(run) + 1)
    return any(pieces[start : start + len(run)] == run for start in starts)


def _pieces(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text)


def _in_range(bounds: Range, value: Any) -> bool:
    def cut(bound: Scalar) -> tuple[Any, Any]:
        if not isinstance(value, str):
            return value, float(bound)
        text = _moment(str(bound), False)
        return _moment(value)[: len(text)], text

    compared = {name: getattr(bounds, name) for name in ("gt", "gte", "lt", "lte")}
    pairs = {name: cut(bound) for name, bound in compared.items() if bound is not None}
    return all(
        {"gt": left > right, "gte": left >= right, "lt": left < right, "lte": left <= right}[name]
        for name, (left, right) in pairs.items()
    )


def _moment(text: str, whole: bool = True) -> str:
    """A date and time without zone; a stored date is the start of its day."""
    text = re.sub(r"(T.*?)(Z|[+-]\d\d:?\d\d)$", r"\1", text.replace(" ", "T"))
    return text + "T00:00:00"[len(text) - 10 :] if whole else text


def _metres(point: Mapping[str, float], lat: float, lon: float) -> float:
    """The angle between two directions from the middle of the earth, as a length."""

    def direction(lat: float, lon: float) -> tuple[float, float, float]:
        phi, lam = math.radians(lat), math.radians(lon)
        return math.cos(phi) * math.cos(lam), math.cos(phi) * math.sin(lam), math.sin(phi)

    one, other = direction(point["lat"], point["lon"]), direction(lat, lon)
    return 2 * RADIUS * math.asin(min(1.0, math.dist(one, other) / 2))
