"""Filters as JSON, in Qdrant's form: `{"key": "camera", "match": {"text": "canon"}}`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from indexer.filters.expression import (
    MAX_DEPTH,
    All,
    AnyOf,
    Filter,
    FilterError,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Range,
    Scalar,
    check_size,
    negated,
)

_CLAUSES = ("must", "should", "must_not")
_BOUNDS = ("gt", "gte", "lt", "lte")


def read_filter(value: Any) -> Filter:
    """Read a filter: an object with `must`, `should` and `must_not`, or a single condition.

    Raises:
        FilterError: naming the path in the JSON.
    """
    return check_size(_filter(value, "", 0))


def _filter(value: Any, path: str, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise FilterError(f"more than {MAX_DEPTH} levels", path)
    fields = _object(value, path)
    if not fields.keys() & set(_CLAUSES):
        return _condition(fields, path)
    _known(fields, _CLAUSES, path)
    parts: list[Filter] = []
    for clause in _CLAUSES:
        if clause in fields:
            found = _listed(fields[clause], f"{path}.{clause}".lstrip("."), depth)
            parts += _COMBINED[clause](found)
    return parts[0] if len(parts) == 1 else All(tuple(parts))


_COMBINED: Mapping[str, Callable[[list[Filter]], list[Filter]]] = {
    "must": lambda parts: parts,
    "should": lambda parts: parts if len(parts) == 1 else [AnyOf(tuple(parts))],
    "must_not": lambda parts: [negated(part) for part in parts],
}


def _listed(value: Any, path: str, depth: int) -> list[Filter]:
    if not isinstance(value, list):
        return [_filter(value, path, depth + 1)]
    if not value:
        raise FilterError("the list is empty: leave it out", path)
    return [_filter(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]


def _condition(fields: Mapping[str, Any], path: str) -> Filter:
    if "is_empty" in fields:
        _known(fields, ("is_empty",), path)
        inner = _object(fields["is_empty"], _at(path, "is_empty"))
        _known(inner, ("key",), _at(path, "is_empty"))
        return IsEmpty(field=_key(inner, _at(path, "is_empty")), where=path or "filter")
    kinds = [name for name in _CONDITIONS if name in fields]
    if len(kinds) != 1:
        raise FilterError(
            "give must, should and must_not, or a condition: a key with one of "
            f"{', '.join(_CONDITIONS)}; or is_empty",
            path or None,
        )
    _known(fields, ("key", kinds[0]), path)
    own = _at(path, kinds[0])
    return _CONDITIONS[kinds[0]](_key(fields, path), _object(fields[kinds[0]], own), own)


def _match(key: str, fields: Mapping[str, Any], path: str) -> Filter:
    if len(fields) != 1:
        raise FilterError("give one of value, any, except, text and prefix", path)
    [(how, given)] = fields.items()
    _known(fields, ("value", "any", "except", "text", "prefix"), path)
    own = _at(path, how)
    if how in ("any", "except"):
        if not isinstance(given, list) or not given:
            raise FilterError("give a list of values", own)
        found = Match(field=key, where=own, values=tuple(_scalar(value, own) for value in given))
        return negated(found) if how == "except" else found
    if how == "value":
        return Match(field=key, where=own, values=(_scalar(given, own),))
    if not isinstance(given, str):
        raise FilterError("give a text", own)
    return Match(field=key, where=own, values=(given,), mode="text" if how == "text" else "prefix")


def _range(key: str, fields: Mapping[str, Any], path: str) -> Filter:
    _known(fields, _BOUNDS, path)
    if not fields:
        raise FilterError(f"give one of {', '.join(_BOUNDS)}", path)
    bounds = {name: _scalar(value, _at(path, name)) for name, value in fields.items()}
    return Range(field=key, where=path, **bounds)


def _radius(key: str, fields: Mapping[str, Any], path: str) -> Filter:
    _known(fields, ("center", "radius"), path)
    lat, lon = _point(fields.get("center"), _at(path, "center"))
    metres = _number(fields.get("radius"), _at(path, "radius"))
    return GeoRadius(field=key, where=path, lat=lat, lon=lon, metres=metres)


def _box(key: str, fields: Mapping[str, Any], path: str) -> Filter:
    _known(fields, ("top_left", "bottom_right"), path)
    north, west = _point(fields.get("top_left"), _at(path, "top_left"))
    south, east = _point(fields.get("bottom_right"), _at(path, "bottom_right"))
    return GeoBox(field=key, where=path, south=south, west=west, north=north, east=east)


_CONDITIONS: Mapping[str, Callable[[str, Mapping[str, Any], str], Filter]] = {
    "match": _match,
    "range": _range,
    "geo_radius": _radius,
    "geo_bounding_box": _box,
}


def _point(value: Any, path: str) -> tuple[float, float]:
    fields = _object(value, path)
    _known(fields, ("lat", "lon"), path)
    return (
        _number(fields.get("lat"), _at(path, "lat")),
        _number(fields.get("lon"), _at(path, "lon")),
    )


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise FilterError("give a number", path)
    return float(value)


def _scalar(value: Any, path: str) -> Scalar:
    if not isinstance(value, str | bool | int | float) or not _finite(value):
        raise FilterError("give a text, a number, true or false", path)
    return value


def _finite(value: str | float) -> bool:
    """Whether a number can be compared with those of a field."""
    try:
        return isinstance(value, str) or math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _key(fields: Mapping[str, Any], path: str) -> str:
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        raise FilterError("give the name of a field as key", path or None)
    return key


def _object(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FilterError("give an object", path or None)
    return value


def _known(fields: Mapping[str, Any], names: tuple[str, ...], path: str) -> None:
    if unknown := [name for name in fields if name not in names]:
        raise FilterError(f"{unknown[0][:60]!r} is unknown; give {', '.join(names)}", path or None)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
