"""What both ways to write a filter become: conditions on fields, combined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sparta.errors import InputError

Scalar = str | float | bool
# How a keyword is compared: as a whole, by its words, or by how it begins; upper and lower case
# are the same. Other kinds are compared as a whole, whatever is asked for.
Mode = Literal["value", "text", "prefix"]
# Where a condition is in what was written: a column of the text, from 1, or a path in the JSON.
Where = int | str


class FilterError(InputError):
    """The filter cannot be read, or does not fit the fields of the index.

    Attributes:
        reason: what is wrong and what to do.
        where: the column of the text from 1, or the path in the JSON; None if it is the whole.
    """

    def __init__(self, reason: str, where: Where | None = None) -> None:
        place = {int: f", column {where}", str: f", {where}"}.get(type(where), "")
        super().__init__(f"filter{place}: {reason}")
        self.reason = reason
        self.where = where

    def __reduce__(self) -> tuple[type[FilterError], tuple[str, Where | None]]:
        # To be raised again in the process that asked.
        return FilterError, (self.reason, self.where)


@dataclass(frozen=True)
class All:
    """Every part lets the image through."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class AnyOf:
    """At least one part lets the image through."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part does not let the image through."""

    part: Filter


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on the values of one field; an image without any fails it, unless stated.

    Attributes:
        field: its name.
        where: in what was written, for messages; does not count when filters are compared.
    """

    field: str
    where: Where | None = dataclasses.field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class Match(Condition):
    """One of the values is one of these.

    Attributes:
        values: a date stands for the period that it names: 2024-06 is all of June.
        mode: of comparing keywords.
    """

    values: tuple[Scalar, ...]
    mode: Mode = "value"


@dataclass(frozen=True, kw_only=True)
class Range(Condition):
    """One of the values is within the bounds; a date stands for the period that it names.

    Attributes:
        gt: the value is greater, as after the end of the period.
        gte: greater or equal, as from the start of the period.
        lt: less, as before the start of the period.
        lte: less or equal, as up to the end of the period.
    """

    gt: Scalar | None = None
    gte: Scalar | None = None
    lt: Scalar | None = None
    lte: Scalar | None = None


@dataclass(frozen=True, kw_only=True)
class GeoRadius(Condition):
    """One of the points is at most so far away.

    Attributes:
        lat: of the centre, in degrees.
        lon: likewise.
        metres: along the earth's surface.
    """

    lat: float
    lon: float
    metres: float

    def __post_init__(self) -> None:
        _check_degrees(self.where, (self.lat,), (self.lon,))
        if self.metres < 0:
            raise FilterError("a distance is not negative", self.where)


@dataclass(frozen=True, kw_only=True)
class GeoBox(Condition):
    """One of the points is within the box; one whose west is east of its east crosses 180°.

    Attributes:
        south: degrees.
        west: likewise.
        north: likewise.
        east: likewise.
    """

    south: float
    west: float
    north: float
    east: float

    def __post_init__(self) -> None:
        _check_degrees(self.where, (self.south, self.north), (self.west, self.east))


def _check_degrees(where: Where | None, lats: Iterable[float], lons: Iterable[float]) -> None:
    """Raise FilterError unless degrees are those of places on the earth."""
    for name, degrees, most in (("latitude", lats, 90), ("longitude", lons, 180)):
        for one in degrees:
            if not -most <= one <= most:
                problem = f"a {name} is from -{most} to {most} degrees, not {one:g}"
                raise FilterError(problem, where)


@dataclass(frozen=True, kw_only=True)
class IsEmpty(Condition):
    """The image has no value of the field."""


def negated(part: Filter) -> Filter:
    """What lets through the images that the part does not."""
    return part.part if isinstance(part, Not) else Not(part)


Filter = All | AnyOf | Not | Match | Range | GeoRadius | GeoBox | IsEmpty

MAX_DEPTH = 10  # of filters within filters
MAX_CONDITIONS = 100
MAX_VALUES = 1000  # of all conditions together


def check_size(whole: Filter) -> Filter:
    """The filter itself; raises FilterError if it is too large to evaluate quickly."""
    conditions, values, level = 0, 0, [whole]
    depth = 0
    while level:
        depth += 1
        conditions += sum(isinstance(one, Condition) for one in level)
        values += sum(len(one.values) for one in level if isinstance(one, Match))
        level = [part for one in level for part in parts_of(one)]
    for name, found, most in (
        ("levels", depth, MAX_DEPTH),
        ("conditions", conditions, MAX_CONDITIONS),
        ("values", values, MAX_VALUES),
    ):
        if found > most:
            raise FilterError(f"{found} {name} are too many; {most} are allowed")
    return whole


def parts_of(one: Filter) -> tuple[Filter, ...]:
    """The filters that one combines; none for a condition."""
    if isinstance(one, All | AnyOf):
        return one.parts
    return (one.part,) if isinstance(one, Not) else ()


def conditions_of(whole: Filter) -> list[Condition]:
    """All conditions, in order."""
    if isinstance(whole, Condition):
        return [whole]
    return [found for part in parts_of(whole) for found in conditions_of(part)]
