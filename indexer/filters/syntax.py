r"""Filters as text, `taken:2024-06..2024-08 camera:canon -folder:raw`, and as JSON objects.

    filter     = all, { "OR", all } ;
    all        = part, { part } ;
    part       = [ "-" ], ( condition | "(", filter, ")" ) ;
    condition  = name, ":", item, { "|", item } ;
    item       = "*" | [ "=" ], operand | operand, "*" | ( ">" | ">=" | "<" | "<=" ), operand
               | [ operand ], "..", [ operand ] | point, "~", distance | point, "..", point ;
    operand    = word | '"', { character | '\"' | '\\' }, '"' ;
    point      = latitude, ",", longitude ;
    distance   = number, ( "m" | "km" ) ;

Parts are separated by spaces. `name:*` is an image that has any value of the field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

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
from sparta.json_values import JsonMapping, JsonValue

MAX_LENGTH = 2000  # characters
OR = "OR"
_SPACE = re.compile(r"\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_NAME = re.compile(r'[^\s"():|=<>*~-][^\s"():|=<>*~]*')
# A word ends before a range's dots, and before a star that ends the item.
_WORD = re.compile(r'(?:(?!\.\.|\*(?=[\s()|]|$))[^\s"()|])+')
_COMPARISON = re.compile(r"[<>]=?")
_NUMBER = r"[-+]?\d+(?:\.\d+)?"
_POINT = re.compile(rf"({_NUMBER}),({_NUMBER})")
_CIRCLE = re.compile(rf"({_NUMBER}),({_NUMBER})~(\d+(?:\.\d+)?)(k?m)")
_COMPARED = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_EXAMPLE = "such as camera:canon or taken:2024-06..2024-08"


def parse_filter(text: str) -> Filter:
    """Read a filter from a text; raises FilterError, which names the column."""
    if len(text) > MAX_LENGTH:
        raise FilterError(f"{len(text)} characters are too many; {MAX_LENGTH} are allowed")
    return check_size(_Parser(text).whole())


def pointed(text: str, error: FilterError) -> str:
    """An error about a text in three lines, the last of which points at the column."""
    if not isinstance(error.where, int):
        return str(error)
    shown = re.sub(r"\s", " ", text)
    return f"{error}\n  {shown}\n  {' ' * (error.where - 1)}^"


class _Parser:
    """Reads a text from left to right; `_at` is the place of the next character."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Filter:
        found = self._any(0)
        if self._at < len(self._text):
            raise self._error("there is no ( that this ) closes")
        return found

    def _any(self, depth: int) -> Filter:
        parts = [self._all(depth)]
        while self._take_or():
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _take_or(self) -> bool:
        if not self._at_or():
            return False
        self._at += len(OR)
        return True

    def _at_or(self) -> bool:
        after = self._text[self._at + len(OR) :][:1]
        return self._text.startswith(OR, self._at) and (
            not after or after in "(" or after.isspace()
        )

    def _all(self, depth: int) -> Filter:
        parts = []
        self._skip()
        while self._at < len(self._text) and self._peek() != ")" and not self._at_or():
            parts.append(self._part(depth))
            self._skip()
        if not parts:
            raise self._error(f"a condition is missing, {_EXAMPLE}")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _part(self, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels")
        if self._take("-"):
            return negated(self._part(depth + 1))
        if not self._take("("):
            return self._condition()
        opened = self._at
        found = self._any(depth + 1)
        if not self._take(")"):
            self._at = opened - 1
            raise self._error("there is no ) that closes this (")
        return found

    def _condition(self) -> Filter:
        where = self._at + 1
        name = self._quoted() if self._peek() == '"' else self._matched(_NAME)
        if not name or not self._take(":"):
            self._at = where - 1
            raise self._error(f"write field:value, {_EXAMPLE}; words to search for are the query")
        items = [self._item(name, where)]
        while self._take("|"):
            items.append(self._item(name, where))
        return _joined(items)

    def _item(self, name: str, where: int) -> Filter:
        if self._take("*"):
            return negated(IsEmpty(field=name, where=where))
        if self._take("="):
            return Match(field=name, where=where, values=(self._operand(),))
        if comparison := self._matched(_COMPARISON):
            return Range(field=name, where=where, **{_COMPARED[comparison]: self._operand()})
        if self._text.startswith("..", self._at):
            self._at += 2
            return Range(field=name, where=where, lte=self._operand())
        if circle := _CIRCLE.match(self._text, self._at):
            self._at = circle.end()
            lat, lon, distance = map(float, circle.groups()[:3])
            metres = distance * (1000 if circle[4] == "km" else 1)
            return GeoRadius(field=name, where=where, lat=lat, lon=lon, metres=metres)
        return self._value(name, where)

    def _value(self, name: str, where: int) -> Filter:
        first = self._operand()
        if self._take("*"):
            return Match(field=name, where=where, values=(first,), mode="prefix")
        if not self._text.startswith("..", self._at):
            return Match(field=name, where=where, values=(first,), mode="text")
        self._at += 2
        if self._at == len(self._text) or self._peek() in " )|\t\n":
            return Range(field=name, where=where, gte=first)
        last = self._operand()
        corners = _POINT.fullmatch(first), _POINT.fullmatch(last)
        if corners[0] and corners[1]:
            south, west = map(float, corners[0].groups())
            north, east = map(float, corners[1].groups())
            return GeoBox(field=name, where=where, south=south, west=west, north=north, east=east)
        return Range(field=name, where=where, gte=first, lte=last)

    def _operand(self) -> str:
        if self._peek() == '"':
            return self._quoted()
        found = self._matched(_WORD)
        if not found:
            raise self._error("a value is missing")
        return found

    def _quoted(self) -> str:
        found = _QUOTED.match(self._text, self._at)
        if not found:
            raise self._error('there is no " that closes this one')
        self._at = found.end()
        return re.sub(r"\\(.)", r"\1", found[1])

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._at)
        if not found:
            return ""
        self._at = found.end()
        return found[0]

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, sign: str) -> bool:
        if not self._text.startswith(sign, self._at):
            return False
        self._at += len(sign)
        return True

    def _skip(self) -> None:
        self._matched(_SPACE)

    def _error(self, reason: str) -> FilterError:
        return FilterError(reason, self._at + 1)


def _joined(items: list[Filter]) -> Filter:
    """Items between bars: one condition of many values where they are compared alike."""
    if len(items) == 1:
        return items[0]
    matches = [one for one in items if isinstance(one, Match)]
    if len(matches) == len(items) and len({one.mode for one in matches}) == 1:
        first = matches[0]
        values = tuple(value for one in matches for value in one.values)
        return Match(field=first.field, where=first.where, values=values, mode=first.mode)
    return AnyOf(tuple(items))


_CLAUSES = ("must", "should", "must_not")
_BOUNDS = ("gt", "gte", "lt", "lte")


def read_filter(value: JsonMapping) -> Filter:
    """Read a filter: an object with `must`, `should` and `must_not`, or a single condition.

    Raises FilterError, which names the path in the JSON.
    """
    return check_size(_filter(value, "", 0))


def _filter(value: JsonValue, path: str, depth: int) -> Filter:
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


def _listed(value: JsonValue, path: str, depth: int) -> list[Filter]:
    if not isinstance(value, list):
        return [_filter(value, path, depth + 1)]
    if not value:
        raise FilterError("the list is empty: leave it out", path)
    return [_filter(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]


def _condition(fields: Mapping[str, JsonValue], path: str) -> Filter:
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


def _match(key: str, fields: Mapping[str, JsonValue], path: str) -> Filter:
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


def _range(key: str, fields: Mapping[str, JsonValue], path: str) -> Filter:
    _known(fields, _BOUNDS, path)
    if not fields:
        raise FilterError(f"give one of {', '.join(_BOUNDS)}", path)
    bounds = {name: _scalar(value, _at(path, name)) for name, value in fields.items()}
    return Range(field=key, where=path, **bounds)


def _radius(key: str, fields: Mapping[str, JsonValue], path: str) -> Filter:
    _known(fields, ("center", "radius"), path)
    lat, lon = _point(fields.get("center"), _at(path, "center"))
    metres = _number(fields.get("radius"), _at(path, "radius"))
    return GeoRadius(field=key, where=path, lat=lat, lon=lon, metres=metres)


def _box(key: str, fields: Mapping[str, JsonValue], path: str) -> Filter:
    _known(fields, ("top_left", "bottom_right"), path)
    north, west = _point(fields.get("top_left"), _at(path, "top_left"))
    south, east = _point(fields.get("bottom_right"), _at(path, "bottom_right"))
    return GeoBox(field=key, where=path, south=south, west=west, north=north, east=east)


_CONDITIONS: Mapping[str, Callable[[str, Mapping[str, JsonValue], str], Filter]] = {
    "match": _match,
    "range": _range,
    "geo_radius": _radius,
    "geo_bounding_box": _box,
}


def _point(value: JsonValue, path: str) -> tuple[float, float]:
    fields = _object(value, path)
    _known(fields, ("lat", "lon"), path)
    return (
        _number(fields.get("lat"), _at(path, "lat")),
        _number(fields.get("lon"), _at(path, "lon")),
    )


def _number(value: JsonValue, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise FilterError("give a number", path)
    return float(value)


def _scalar(value: JsonValue, path: str) -> Scalar:
    if not isinstance(value, str | bool | int | float) or not _finite(value):
        raise FilterError("give a text, a number, true or false", path)
    return value


def _finite(value: str | float) -> bool:
    """Whether a number can be compared with those of a field."""
    try:
        return isinstance(value, str) or math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def _key(fields: Mapping[str, JsonValue], path: str) -> str:
    key = fields.get("key")
    if not isinstance(key, str) or not key:
        raise FilterError("give the name of a field as key", path or None)
    return key


def _object(value: JsonValue, path: str) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping):
        raise FilterError("give an object", path or None)
    return value


def _known(fields: Mapping[str, JsonValue], names: tuple[str, ...], path: str) -> None:
    if unknown := [name for name in fields if name not in names]:
        raise FilterError(f"{unknown[0][:60]!r} is unknown; give {', '.join(names)}", path or None)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
