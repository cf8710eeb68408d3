r"""Filters as text: `taken:2024-06..2024-08 camera:canon -folder:raw`.

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

import re

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
    check_size,
    negated,
)

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
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_EXAMPLE = "such as camera:canon or taken:2024-06..2024-08"


def parse_filter(text: str) -> Filter:
    """Read a filter.

    Raises:
        FilterError: naming the column.
    """
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
            return Range(field=name, where=where, **{_BOUNDS[comparison]: self._operand()})
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
    first = items[0]
    if all(isinstance(one, Match) and one.mode == first.mode for one in items):  # type: ignore[union-attr]
        values = tuple(value for one in items for value in one.values)  # type: ignore[union-attr]
        return Match(field=first.field, where=first.where, values=values, mode=first.mode)  # type: ignore[union-attr]
    return AnyOf(tuple(items))
