"""Dates and times as written on a photo: the clock where it was taken, without time zone."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_LAST = (datetime.max - EPOCH) // _MICROSECOND
_WRITTEN = re.compile(
    r"(\d{4})"
    r"(?:-(\d\d)"
    r"(?:-(\d\d)"
    r"(?:[T ](\d\d)"
    r"(?::(\d\d)"
    r"(?::(\d\d)"
    r"(?:\.(\d{1,6})\d*)?)?)?"
    r"(?:Z|[+-]\d\d:?\d\d)?)?)?)?",
    re.ASCII,
)
_DAY = 3  # parts of a date that names a day


class Period(NamedTuple):
    """The time that a date names, a day of "2024-06-01", in microseconds since 1970.

    Attributes:
        start: the first microsecond.
        end: the first one after it.
    """

    start: int
    end: int


def period(text: str) -> Period | None:
    """The period of a date: year, month, day, or time to the hour, minute, second or finer.

    A time zone at the end is allowed and means nothing: photos are found by the clock of the place
    where they were taken.

    Returns:
        None if the text is no date.
    """
    written = _WRITTEN.fullmatch(text)
    if written is None:
        return None
    *whole, fraction = written.groups()
    parts = [int(part) for part in whole if part is not None]
    try:
        start = datetime(*[*parts, 1, 1][: max(_DAY, len(parts))])  # type: ignore[arg-type]
    except ValueError:
        return None
    if fraction:
        start += timedelta(microseconds=int(fraction.ljust(6, "0")))
        length = timedelta(microseconds=10 ** (6 - len(fraction)))
        return Period(microseconds(start), microseconds(start) + length // _MICROSECOND)
    return Period(microseconds(start), _end(start, len(parts)))


def stored_date(text: str) -> int | None:
    """The first microsecond of a date that names a day at least, as metadata has it; else None."""
    found = period(text) if text[4:5] == "-" and text[7:8] == "-" else None
    return found.start if found else None


def microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // _MICROSECOND


def _end(start: datetime, parts: int) -> int:
    """The end of the period that so many parts of a date name: 1 for a year, 6 for a second."""
    try:
        if parts == 1:
            return microseconds(start.replace(year=start.year + 1))
        if parts == 2:
            return microseconds((start + timedelta(days=31)).replace(day=1))
        lengths = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
        return microseconds(start + lengths[parts - _DAY])
    except (ValueError, OverflowError):  # the end of the year 9999
        return _LAST + 1
