"""How many images have each value of a field: facets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer.fields.part import FieldColumn
from indexer.filters.expression import FilterError
from indexer.filters.field_index import FieldIndex

INTERVALS = {"year": "Y", "month": "M", "day": "D"}
MOST = 100  # values of a facet

Value = str | float | bool


@dataclass(slots=True)
class Bucket:
    """One value of a facet.

    Attributes:
        value: of the field; of a date the year, month or day.
        count: how many images have it.
    """

    value: Value
    count: int


def count_values(fields: FieldIndex, facet: str, found: NDArray[np.bool_]) -> Counter[Value]:
    """How many images have each value of a field, or a date in each period.

    Args:
        fields: of an index.
        facet: a field; for dates with the length of a period after a colon: taken:year.
        found: [documents] the images that count.

    Raises:
        FilterError: if there is no such field, or it cannot be counted so.
    """
    name, _, interval = facet.partition(":")
    kind = fields.kind(name)
    fitting = interval in INTERVALS if kind == "date" else not interval
    if kind == "geo" or not fitting:
        raise FilterError(
            f"facet {facet[:60]}: give a field, with :year, :month or :day for a date; {name[:60]} "
            f"is of kind {kind}"
        )
    counts: Counter[Value] = Counter()
    for column, own in fields.columns(name, found):
        counts.update(_counted(column, own, interval))
    return counts


def most_frequent(counts: Counter[Value], facet: str) -> list[Bucket]:
    """The values that most images have, with their numbers; dates in order of time.

    Args:
        counts: of all values.
        facet: that was counted.
    """
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:MOST]
    if facet.partition(":")[2]:
        ordered.sort()
    return [Bucket(value, count) for value, count in ordered]


def _counted(column: FieldColumn, found: NDArray[np.bool_], interval: str) -> dict[Value, int]:
    chosen = found[column.documents]
    values = column.values[chosen]
    if column.words is not None:
        counts = np.bincount(values, minlength=len(column.words))
        most = np.argsort(-counts, kind="stable")[: _kept(counts)]
        return {column.words[place].as_py(): int(counts[place]) for place in most.tolist()}
    if column.kind == "date":
        periods = values.view("datetime64[us]").astype(f"datetime64[{INTERVALS[interval]}]")
        pairs = np.stack([column.documents[chosen], periods.astype(np.int64)], axis=1)
        own = np.unique(pairs, axis=0)[:, 1].astype(periods.dtype)  # an image once in a period
        named, counts = np.unique(own, return_counts=True)
        return dict(zip(np.datetime_as_string(named).tolist(), counts.tolist(), strict=True))
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def _kept(counts: NDArray[np.int64]) -> int:
    """How many words an image has at all."""
    return int(np.count_nonzero(counts))
