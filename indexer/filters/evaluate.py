"""Filters → the images that they let through."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.fields.columns import FieldColumn, FieldPart
from indexer.fields.kinds import Kind, Period, composed, joined, period
from indexer.filters.expression import (
    All,
    AnyOf,
    Condition,
    Filter,
    FilterError,
    GeoBox,
    GeoRadius,
    IsEmpty,
    Match,
    Mode,
    Not,
    Range,
    Scalar,
    Where,
    conditions_of,
)

EARTH = 6_371_008.8  # metres, the mean radius (IUGG)
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

Flags = NDArray[np.bool_]


def evaluate(whole: Filter, part: FieldPart) -> Flags:
    """[N] which documents of a part a filter lets through.

    Raises FilterError if a condition does not fit the kind of its field.
    """
    if isinstance(whole, All):
        return reduce(np.logical_and, (evaluate(one, part) for one in whole.parts))
    if isinstance(whole, AnyOf):
        return reduce(np.logical_or, (evaluate(one, part) for one in whole.parts))
    if isinstance(whole, Not):
        return ~evaluate(whole.part, part)
    column = part.columns.get(whole.field)
    if isinstance(whole, IsEmpty):
        return np.ones(part.images, np.bool_) if column is None else ~column.filled
    if column is None:
        return np.zeros(part.images, np.bool_)
    return column.having(_chosen(whole, column))


def _chosen(condition: Condition, column: FieldColumn) -> Flags:
    """[M] which values fulfil a condition."""
    if isinstance(condition, Match):
        compare = _MATCHES.get(column.kind)
        if compare is None or (condition.mode == "prefix" and column.kind != "keyword"):
            raise _unfit(condition, column, "cannot be matched so")
        found = (compare(condition, value, column) for value in condition.values)
        return reduce(np.logical_or, found)
    if isinstance(condition, Range):
        return _within(condition, column)
    if column.kind != "geo":
        raise _unfit(condition, column, "has no points")
    points: NDArray[np.float64] = column.values
    if isinstance(condition, GeoRadius):
        return _in_radius(condition, points)
    assert isinstance(condition, GeoBox)
    return _in_box(condition, points)


def _match_keyword(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    if not isinstance(value, str):
        value = str(value).lower() if isinstance(value, bool) else f"{value:.16g}"
    chosen: Flags = matching(column.folded, value, condition.mode)[column.values]
    return chosen


def _match_number(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    found: Flags = column.values == _number(condition, value, column)
    return found


def _match_date(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    start, end = _period(condition, value, column)
    found: Flags = (column.values >= start) & (column.values < end)
    return found


def _match_boolean(condition: Match, value: Scalar, column: FieldColumn) -> Flags:
    wanted = value if isinstance(value, bool) else _TRUTHS.get(str(value).lower())
    if wanted is None:
        raise _unfit(condition, column, f"is true or false, not {str(value)[:60]!r}")
    found: Flags = column.values == wanted
    return found


_MATCHES: dict[str, Callable[[Match, Scalar, FieldColumn], Flags]] = {
    "keyword": _match_keyword,
    "number": _match_number,
    "date": _match_date,
    "boolean": _match_boolean,
}


def _within(condition: Range, column: FieldColumn) -> Flags:
    """The values between the bounds; a date after a period is one from its end on."""
    found = np.ones(len(column.values), np.bool_)
    values = column.values
    if column.kind == "number":
        for bound, compare in (
            (condition.gt, np.greater),
            (condition.gte, np.greater_equal),
            (condition.lt, np.less),
            (condition.lte, np.less_equal),
        ):
            if bound is not None:
                found &= compare(values, _number(condition, bound, column))
    elif column.kind == "date":
        if condition.gt is not None:
            found &= values >= _period(condition, condition.gt, column).end
        if condition.gte is not None:
            found &= values >= _period(condition, condition.gte, column).start
        if condition.lt is not None:
            found &= values < _period(condition, condition.lt, column).start
        if condition.lte is not None:
            found &= values < _period(condition, condition.lte, column).end
    else:
        raise _unfit(condition, column, "has no range; numbers and dates have")
    return found


def _number(condition: Condition, value: Scalar, column: FieldColumn) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise _unfit(condition, column, f"has numbers, {str(value)[:60]!r} is none") from None


def _period(condition: Condition, value: Scalar, column: FieldColumn) -> Period:
    found = period(str(value))
    if found is None:
        reason = f"has dates such as 2024, 2024-06 or 2024-06-01T18:30, not {str(value)[:60]!r}"
        raise _unfit(condition, column, reason)
    return found


def _unfit(condition: Condition, column: FieldColumn, reason: str) -> FilterError:
    name = condition.field[:60]
    return FilterError(f"{name} is a field of kind {column.kind}: it {reason}", condition.where)


def _in_radius(circle: GeoRadius, points: NDArray[np.float64]) -> Flags:
    """The points at most so far from the centre; only those near it are computed."""
    # Somewhat larger, so that rounding leaves no point out.
    angle = np.degrees(circle.metres / EARTH) * 1.001 + 1e-6
    found: Flags = np.abs(points[:, 0] - circle.lat) <= angle
    near = np.flatnonzero(found)
    found[near] = distances(points[near], circle.lat, circle.lon) <= circle.metres
    return found


def distances(points: NDArray[np.float64], lat: float, lon: float) -> NDArray[np.float64]:
    """Metres from each point [M, 2] to another along the earth, by the haversine formula."""
    phi, lam = np.radians(points[:, 0]), np.radians(points[:, 1])
    height = np.sin((phi - np.radians(lat)) / 2) ** 2
    width = np.sin((lam - np.radians(lon)) / 2) ** 2
    share = height + np.cos(phi) * np.cos(np.radians(lat)) * width
    metres: NDArray[np.float64] = 2 * EARTH * np.arcsin(np.sqrt(np.clip(share, 0, 1)))
    return metres


def _in_box(box: GeoBox, points: NDArray[np.float64]) -> Flags:
    lat, lon = points[:, 0], points[:, 1]
    east_of, west_of = lon >= box.west, lon <= box.east
    across = east_of & west_of if box.west <= box.east else east_of | west_of
    found: Flags = (lat >= box.south) & (lat <= box.north) & across
    return found


try:
    from indexer.columns.native import find_piece
except ImportError:
    find_piece = None  # type: ignore[assignment]

MANY = 20_000  # words, which a regular expression at each would take 10 ms
# Classes of a byte, as native.c has them: a sign, a letter or digit, part of a letter not ASCII.
SIGN, LETTER, PART = 0, 1, 2
FOUND, UNDECIDED = 1, 2
_CLASSES = np.array(
    [PART if byte > 127 else LETTER if chr(byte).isalnum() else SIGN for byte in range(256)],
    np.uint8,
)
_PIECE = re.compile(r"[^\W_]+")


def matching(folded: pa.Array, value: str, mode: Mode) -> NDArray[np.bool_]:
    """[W] which words, in lower case, match a value.

    By mode: as a whole, by a run of whole words in it, or by how it begins.
    """
    import pyarrow.compute as pc  # which a search without a filter does not need

    wanted: str = pc.utf8_lower(pa.scalar(composed(value))).as_py()
    if mode == "value":
        return _flags(pc.equal(folded, wanted))
    if mode == "prefix":
        return _flags(pc.starts_with(folded, wanted))
    return _containing(folded, wanted)


def _containing(folded: pa.Array, wanted: str) -> NDArray[np.bool_]:
    """Which words contain the pieces of `wanted`, one after another.

    The longest piece is looked for in all of them, the expression only where that decides nothing.
    """
    import pyarrow.compute as pc

    pieces = _PIECE.findall(wanted)
    if not pieces:  # signs alone
        return _flags(pc.match_substring(folded, wanted))
    found, undecided = _having(folded, max(pieces, key=len), len(pieces) > 1)
    run = r"[\W_]+".join(map(re.escape, pieces))
    pattern = re.compile(rf"(?<![^\W_]){run}(?![^\W_])")
    for place in np.flatnonzero(undecided).tolist():
        found[place] = pattern.search(folded[place].as_py()) is not None
    return found


def _having(
    folded: pa.Array, piece: str, several: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words have a piece by itself, and of which others only the expression can say it."""
    import pyarrow.compute as pc

    if len(folded) < MANY or find_piece is None:
        return np.zeros(len(folded), np.bool_), _flags(pc.match_substring(folded, piece))
    # In C: Arrow takes twice as long, and a regular expression a second for a million.
    _, offsets, data = folded.buffers()
    starts = np.frombuffer(offsets, np.int32)[folded.offset : folded.offset + len(folded) + 1]
    texts = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found = np.zeros(len(folded), np.uint8)
    find_piece(texts, starts, np.frombuffer(piece.encode(), np.uint8), _CLASSES, found)
    if several:
        return np.zeros(len(folded), np.bool_), found > 0
    return found == FOUND, found == UNDECIDED


def _flags(found: pa.Array) -> NDArray[np.bool_]:
    return np.array(found.to_numpy(zero_copy_only=False), np.bool_)


REMEMBERED = 8  # filters


class FieldIndex:
    """Parts one after another: document d of the second is document N1 + d of the index.

    A field has the same kind in all parts. A part that is shared with another index shares what it
    remembers. `live` [documents] are those that were not deleted; None if none was. `kinds` are of
    all fields, also of those that only a larger index has; None for those of the parts.

    Attributes:
        kinds: of each field.
    """

    def __init__(
        self,
        parts: Sequence[FieldPart],
        live: NDArray[np.bool_] | None = None,
        kinds: Mapping[str, Kind] | None = None,
    ) -> None:
        self.parts = list(parts)
        self._live = live
        self.kinds = joined(part.kinds for part in parts) if kinds is None else kinds
        self._found: dict[Filter, NDArray[np.bool_]] = {}

    @property
    def images(self) -> int:
        """Documents of all parts."""
        return sum(part.images for part in self.parts)

    def live(self) -> NDArray[np.bool_]:
        """[documents] which of them are not deleted; not to be changed."""
        return np.ones(self.images, np.bool_) if self._live is None else self._live

    def kind(self, name: str, where: Where | None = None) -> Kind:
        """The kind of a field; raises FilterError if no image has it."""
        if name not in self.kinds:
            raise FilterError(_unknown(name, list(self.kinds)), where)
        return self.kinds[name]

    def columns(
        self, name: str, found: NDArray[np.bool_]
    ) -> Iterator[tuple[FieldColumn, NDArray[np.bool_]]]:
        """A field's columns, each with its share of flags [documents]."""
        first = 0
        for part in self.parts:
            if name in part.columns:
                yield part.columns[name], found[first : first + part.images]
            first += part.images

    def allowed(self, whole: Filter) -> NDArray[np.bool_]:
        """[documents] which of them a filter lets through; not to be changed.

        Raises FilterError if no image has a field of the filter, or a condition does not fit its
        kind.
        """
        for condition in conditions_of(whole):
            self.kind(condition.field, condition.where)
        found = self._found.get(whole)
        if found is None:
            if len(self._found) >= REMEMBERED:
                self._found.clear()
            found = self._found[whole] = self._evaluated(whole)
        return found

    def count(self, allowed: NDArray[np.bool_]) -> int:
        """How many documents a filter lets through."""
        return int(np.count_nonzero(allowed))

    def _evaluated(self, whole: Filter) -> NDArray[np.bool_]:
        bitmaps = [part.remembered(whole, partial(evaluate, whole, part)) for part in self.parts]
        # Lucene drops a segment whose images are all deleted, so that a shard may have none.
        bitmaps = bitmaps or [np.empty(0, np.bool_)]
        found = bitmaps[0] if len(bitmaps) == 1 else np.concatenate(bitmaps)
        if self._live is not None:
            found = found & self._live
        # Searches remember what they make of flags that stay as they are.
        found.flags.writeable = False
        return found


def _unknown(name: str, known: list[str]) -> str:
    """Why a name is no field, with those that look like it, else all."""
    near = get_close_matches(name[:60], known, 3) or sorted(known)[:30]
    return f"no image has the field {name[:60]!r}; there is {', '.join(near)}"
