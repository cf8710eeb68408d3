"""The kinds of fields, declared or derived, and values of metadata as values of a kind."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from sparta.errors import InputError

# Of an index: a segment has a column of each of its fields, at least 4 bytes an image.
MOST_FIELDS = 10_000
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
    where they were taken. None if the text is no date.
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


Kind = Literal["keyword", "number", "date", "boolean", "geo"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PATH, FOLDER, CAMERA, LOCATION = "path", "folder", "camera", "location"
_NAMES: Mapping[Kind, str] = {
    "keyword": f"make model lensModel tags description {PATH} {FOLDER} {CAMERA}",
    "number": "width height bytes iso fNumber focalLength exposureTime orientation rating "
    "latitude longitude",
    "date": "taken",
    "geo": LOCATION,
}
# Of the fields that photos' files have, whatever the values of the first photos look like.
OF_PHOTOS: Mapping[str, Kind] = {
    name: kind for kind, names in _NAMES.items() for name in names.split()
}


def as_keyword(value: Any) -> str | None:
    """A text, composed (NFC); numbers and booleans as JSON writes them, points with a comma."""
    if isinstance(value, str):
        return composed(value) if _is_unicode(value) else None
    if (point := as_point(value)) is not None:
        return "{:.16g},{:.16g}".format(*point)
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def composed(text: str) -> str:
    """A text in NFC, in which an accented letter is one character however it was typed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def as_number(value: Any) -> float | None:
    """A number that is finite, and no whole one that a float64 cannot have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number == value else None


def as_date(value: Any) -> int | None:
    """Microseconds since 1970 of a text such as 2024-06-01 or 2024-06-01T12:30:00."""
    return stored_date(value) if isinstance(value, str) else None


def as_boolean(value: Any) -> bool | None:
    """True or false."""
    return value if isinstance(value, bool) else None


def as_point(value: Any) -> tuple[float, float] | None:
    """Latitude and longitude in degrees of an object {"lat": …, "lon": …}."""
    if not isinstance(value, Mapping) or value.keys() != {"lat", "lon"}:
        return None
    latitude, longitude = as_number(value["lat"]), as_number(value["lon"])
    if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
        return None
    return latitude, longitude


def _is_unicode(text: str) -> bool:
    """Whether a text can be written; half a surrogate pair, which JSON may have, cannot."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


CONVERSIONS: Mapping[Kind, Callable[[Any], Any]] = {
    "keyword": as_keyword,
    "number": as_number,
    "date": as_date,
    "boolean": as_boolean,
    "geo": as_point,
}


# Tried in this order: any simple value can be a keyword.
_INFERRED: tuple[Kind, ...] = ("boolean", "number", "date", "geo", "keyword")


def narrowest(values: Iterable[Any]) -> Kind | None:
    """The kind that all values have, but for those that no field can have; None without others."""
    kinds = {kind for value in values if (kind := _kind(value)) is not None}
    return kinds.pop() if len(kinds) == 1 else "keyword" if kinds else None


def _kind(value: Any) -> Kind | None:
    return next((kind for kind in _INFERRED if CONVERSIONS[kind](value) is not None), None)


def joined(parts: Iterable[Mapping[str, Kind]]) -> dict[str, Kind]:
    """The kinds of fields of an index: of each the narrowest that fits the values of all parts."""
    found: dict[str, Kind] = {}
    for part in parts:
        for name, kind in part.items():
            found[name] = kind if found.get(name, kind) == kind else "keyword"
    return found


def check_count(known: Set[str], more: Set[str], what: str) -> None:
    """Raise InputError, about `what`, if an index with some fields cannot have more.

    It can always have those of photos' files.
    """
    new = more - known - OF_PHOTOS.keys()
    if new and len(known) + len(new) > MOST_FIELDS:
        raise InputError(
            f"{what}: the field {min(new)[:60]!r} is one too many, an index has at most "
            f"{MOST_FIELDS:,}: put such values into one field"
        )


def declared_kinds(declarations: list[str]) -> dict[str, Kind]:
    """The kinds that texts like "rating=number" declare; raises InputError for others."""
    found: dict[str, Kind] = {}
    for text in declarations:
        name, _, kind = text.rpartition("=")
        if not name or kind not in KINDS:
            raise InputError(
                f"--field {text}: give a field and its kind, such as rating=number; kinds are "
                f"{', '.join(KINDS)}"
            )
        found[name] = kind
    return found


def with_derived(image_id: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an image: its metadata, and what follows from it and from the id.

    Metadata comes first where it has a field of the same name:

    - `path`, the image's id, and `folder`, the part of it before the last slash;
    - `camera`, make and model, or the model alone where it begins with the make;
    - `location`, the point of `latitude` and `longitude`.
    """
    derived: dict[str, Any] = {PATH: image_id, FOLDER: image_id.rpartition("/")[0] or None}
    derived[CAMERA] = _camera(metadata.get("make"), metadata.get("model"))
    latitude, longitude = metadata.get("latitude"), metadata.get("longitude")
    if latitude is not None and longitude is not None:
        derived[LOCATION] = {"lat": latitude, "lon": longitude}
    return derived | dict(metadata)


def _camera(make: Any, model: Any) -> str | None:
    names = [name for name in (make, model) if isinstance(name, str) and name]
    if len(names) == 2 and names[1].casefold().startswith(names[0].casefold()):
        return names[1]
    return " ".join(names) or None


DECLARED = "fields.json"


def save_kinds(folder: Path, kinds: Mapping[str, Kind]) -> None:
    """Write the file, unless nothing is declared."""
    if kinds:
        (folder / DECLARED).write_text(json.dumps(kinds, indent=2, ensure_ascii=False) + "\n")


def read_kinds(folder: Path) -> dict[str, Kind]:
    """The declared kinds; none without a file. Raises InputError if it is damaged."""
    path = folder / DECLARED
    if not path.is_file():
        return {}
    try:
        kinds: dict[str, Kind] = json.loads(path.read_text(encoding="utf-8"))
        damaged = not isinstance(kinds, dict) or not set(kinds.values()) <= set(KINDS)
    except (ValueError, TypeError, RecursionError):
        damaged = True
    if damaged:
        raise InputError(f"{path} is damaged; build the index again")
    return kinds
