"""Random metadata and filters of it, and how filters are written as text."""

from __future__ import annotations

from hypothesis import strategies as st

from indexer.filters.expression import (
    All,
    AnyOf,
    Filter,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Range,
    negated,
)

WORDS = [
    "Canon EOS 5D",
    "canon",
    "Nikon Z_6",
    "nikon",
    "été 2024/raw",
    "raw",
    'say "cheese"',
    "back\\slash",
    "a..b",
    "(x|y)*",
    "OR",
    "-",
]
DATES = ["2023-12-31", "2024-06-01", "2024-06-30T23:59:59", "2024-07-01 08:15:00", "2025-01-01"]
PERIODS = ["2023", "2024", "2024-06", "2024-06-30", "2024-06-30T23", "2024-07-01T08:15", "2025-01"]
NUMBERS = [-1, 0, 0.5, 100, 400, 6400]
PLACES = [0.0, 48.8, -33.9, 90.0]
KEYWORDS = ["camera", "tags", "my field"]

_words = st.sampled_from(WORDS)
_point = st.builds(lambda lat, lon: {"lat": lat, "lon": lon}, *[st.sampled_from(PLACES)] * 2)
IMAGES = st.fixed_dictionaries(
    {},
    optional={
        "camera": _words,
        "my field": _words | st.none(),
        "tags": st.lists(_words, max_size=3),
        "iso": st.sampled_from(NUMBERS),
        "taken": st.sampled_from(DATES),
        "favourite": st.booleans(),
        "location": _point,
    },
)


def _matches(field: str, values: list[str], modes: list[str]) -> st.SearchStrategy[Filter]:
    several = st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True).map(tuple)
    return st.builds(Match, field=st.just(field), values=several, mode=st.sampled_from(modes))


def _ranges(field: str, values: list[str]) -> st.SearchStrategy[Filter]:
    bound, named = st.sampled_from(values), st.just(field)
    one = [st.builds(Range, field=named, **{name: bound}) for name in ("gt", "gte", "lt", "lte")]
    return st.one_of(*one, st.builds(Range, field=named, gte=bound, lte=bound))


def _located() -> st.SearchStrategy[Filter]:
    named, side = st.just("location"), st.sampled_from([-180.0, -34.5, 0.0, 48.5, 170.25])
    metres = st.sampled_from([0.0, 1.5, 1000.0, 12_000_000.0])
    circle = st.builds(GeoRadius, field=named, lat=st.sampled_from(PLACES), lon=side, metres=metres)
    box = st.builds(GeoBox, field=named, south=side, west=side, north=side, east=side)
    return circle | box


NAMES = [*KEYWORDS, "iso", "taken", "favourite", "location"]
CONDITIONS: st.SearchStrategy[Filter] = st.one_of(
    *[_matches(name, WORDS, ["value", "text", "prefix"]) for name in KEYWORDS],
    _matches("iso", [str(number) for number in NUMBERS], ["value", "text"]),
    _ranges("iso", [str(number) for number in NUMBERS]),
    _matches("taken", PERIODS, ["value", "text"]),
    _ranges("taken", PERIODS),
    _matches("favourite", ["true", "no"], ["value", "text"]),
    _located(),
    st.builds(IsEmpty, field=st.sampled_from(NAMES)),
)


def _combined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return inner.map(negated) | several.map(All) | several.map(AnyOf)


FILTERS = st.recursive(CONDITIONS, _combined, max_leaves=6)
