"""The kinds of fields, and how values of metadata become values of a kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from indexer.fields.dates import stored_date
from sparta.errors import InputError

Kind = Literal["keyword", "number", "date", "boolean", "geo"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def as_keyword(value: Any) -> str | None:
    """A text; numbers and booleans as JSON writes them."""
    if isinstance(value, str):
        return value if _is_unicode(value) else None
    return json.dumps(value) if isinstance(value, bool | int | float) else None


def as_number(value: Any) -> float | None:
    """A number that is finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


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


def declared_kinds(declarations: list[str]) -> dict[str, Kind]:
    """The kinds that texts like "rating=number" declare.

    Raises:
        InputError: if one is something else.
    """
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
