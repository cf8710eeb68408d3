"""What scenes consist of: kinds of object, how each is drawn, and the backgrounds.

The tables are in `scenes.toml`. Drawings are written as steps with `;` between, in hundredths of
the canvas, x to the right and y down: `poly 50 3 99 43 1 43 dark`, with `,` between several of one
colour. The shapes are poly, blob (a smooth curve), rect, oval, disc, ring, line, arc and eye, the
last number of a line is its width; `at` keeps points for a shape that names none.

Values: `up=2~12` names a random one of this range (names have one letter, colours more);
`x+.5*w-3` sums and products; `84±8` varies by 8 %; `12|56` is one of them; `5<e<95` is limited.
Colours: a name of `COLOURS` or `colour`, the object's own, with its `dark` and `light`; #ffffff;
`dark*70` shaded; `half:ink/paper` one of two at random, `640:paper/ink` the first if the object's
colour is darker.

Steps in brackets: `mirror(…)` draws them on the left and the right, `9(…)` or `1~3(…)` several
times with the number in i and the share done in u, `maybe 60(…)` with this probability, `turn u(…)`
with the cosine and sine of a share of a full turn in c and s.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RGB = tuple[int, int, int]
TABLES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("scenes.toml").read_text(encoding="utf-8")
)


def rgb(text: str) -> RGB:
    """The colour that #ffffff names."""
    red, green, blue = bytes.fromhex(text[1:])
    return red, green, blue


PALETTE = {name: rgb(text) for name, text in TABLES["palette"].items()}
COLOURS = {name: rgb(text) for name, text in TABLES["colours"].items()}
DRAWINGS: dict[str, str] = TABLES["drawings"]
BACKDROPS: dict[str, str] = TABLES["backdrops"]
INDOORS = frozenset({"living_room", "kitchen"})
NO_WEATHER = INDOORS | {"underwater", "sky"}


@dataclass(frozen=True)
class Kind:
    """One kind of object; `scenes.toml` says what its fields are."""

    aspect: float
    height: float
    zones: list[str]
    places: frozenset[str]
    colours: list[str]
    nouns: tuple[tuple[str, str], ...]
    actions: dict[str, str]
    top: float | None
    lights: list[str]


def forms(text: str) -> tuple[tuple[str, str], ...]:
    """Singular and plural of nouns such as "dog/dogs hot-air_balloon/hot-air_balloons"."""
    pairs = (noun.replace("_", " ").split("/") for noun in text.split())
    return tuple((one, many) for one, many in pairs)


def _words(text: str) -> list[str]:
    return " ".join(TABLES["groups"].get(word, word) for word in text.split()).split()


def _kind(row: dict[str, Any]) -> Kind:
    return Kind(
        row["aspect"],
        row["height"],
        _words(row["zones"]),
        frozenset(_words(row["places"])),
        _words(row["colours"]),
        forms(row["nouns"]),
        dict(pair.split(":") for pair in row.get("actions", "").split()),
        row.get("top"),
        _words(row.get("lights", "day dusk night")),
    )


SMALL = _words("SMALL")
"""Kinds that can stand on a table, chair, bench or sofa."""
KINDS = {name: _kind(row) for name, row in TABLES["kinds"].items()}
