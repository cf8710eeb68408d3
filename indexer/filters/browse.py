"""What a result list can be browsed by: facets, and orders by the value of a field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from indexer.answer import Bucket, Value
from indexer.fields.columns import FieldColumn, FieldPart
from indexer.filters.evaluate import FieldIndex
from indexer.filters.expression import FilterError

INTERVALS = {"year": "Y", "month": "M", "day": "D"}
MOST = 100  # values of a facet


def count_values(fields: FieldIndex, facet: str, found: NDArray[np.bool_]) -> Counter[Value]:
    """How many images that were `found` [documents] have each value of a field.

    The facet is a field; for dates with the length of a period after a colon: taken:year. Raises
    FilterError if there is no such field, or it cannot be counted so.
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
    """The values that most images have, with their numbers; dates in order of time."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))[:MOST]
    if facet.partition(":")[2]:
        ordered.sort()
    return [Bucket(value, count) for value, count in ordered]


def _counted(column: FieldColumn, found: NDArray[np.bool_], interval: str) -> dict[Value, int]:
    chosen = found[column.documents]
    values = column.values[chosen]
    if column.words is not None:
        counts = np.bincount(values, minlength=len(column.words))
        most = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        return {column.words[place].as_py(): int(counts[place]) for place in most.tolist()}
    if column.kind == "date":
        periods = values.view("datetime64[us]").astype(f"datetime64[{INTERVALS[interval]}]")
        pairs = np.stack([column.documents[chosen], periods.astype(np.int64)], axis=1)
        own = np.unique(pairs, axis=0)[:, 1].astype(periods.dtype)  # an image once in a period
        named, counts = np.unique(own, return_counts=True)
        return dict(zip(np.datetime_as_string(named).tolist(), counts.tolist(), strict=True))
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


class Order:
    """Documents in the order of a field or of scores; those without a value come last.

    Of several values the smallest counts, or the largest where the order falls. Ties are in the
    order of image ids.

    Attributes:
        falling: whether the largest value comes first.
        image_id: of a document.

    Args:
        fields: of an index.
        name: a field, with a minus before it for the largest first; None for the scores.
        scores: [documents], the largest first.

    Raises FilterError if there is no such field, or its values have no order.
    """

    def __init__(
        self,
        fields: FieldIndex,
        name: str | None,
        scores: NDArray[np.float64],
        image_id: Callable[[int], str],
    ) -> None:
        self._fields, self._scores, self.image_id = fields, scores, image_id
        self.falling = name is None or name.startswith("-")
        self._field = None if name is None else name.removeprefix("-")
        if self._field is None:
            self._keys = -scores
        elif fields.kind(self._field) == "geo":
            raise FilterError(f"sort {self._field[:60]}: points have no order")
        else:
            self._keys = _keys(fields, self._field, self.falling)

    def first(self, found: NDArray[np.bool_], count: int) -> list[int]:
        """The first `count` of some documents, flags [documents]."""
        candidates = np.flatnonzero(found)
        if not len(candidates):
            return []
        own = self._keys[candidates]
        if count < len(own):
            candidates = candidates[own <= np.partition(own, count - 1)[count - 1]]
        best, first = [], 0
        for part in self._fields.parts:
            start, end = np.searchsorted(candidates, [first, first + part.images])
            best.append(_first_of_part(part, first, candidates[start:end], self._keys, count))
            first += part.images
        candidates = np.concatenate(best)
        if len(best) > 1:
            ids = np.array([self.image_id(document) for document in candidates.tolist()], object)
            candidates = candidates[np.lexsort((ids, self._keys[candidates]))]
        documents: list[int] = candidates[:count].tolist()
        return documents

    def value(self, document: int) -> float | str | None:
        """What a document is ordered by, None without a value; a date in microseconds."""
        if self._field is None:
            return float(self._scores[document])
        for part in self._fields.parts:
            if document < part.images:
                break
            document -= part.images
        column = part.columns.get(self._field)
        if column is None or not column.filled[document]:
            return None
        values = column.values[column.starts[document] : column.starts[document + 1]]
        best = values.max() if self.falling else values.min()
        return float(best) if column.words is None else str(column.words[int(best)].as_py())


def _first_of_part(
    part: FieldPart, first: int, documents: NDArray[np.int64], keys: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    """The first of a part's documents by key and image id, in this order."""
    if part.ranks is None:
        return documents[np.argsort(keys[documents], kind="stable")[:count]]
    return documents[np.lexsort((part.ranks[documents - first], keys[documents]))[:count]]


def _keys(fields: FieldIndex, name: str, falling: bool) -> NDArray[np.float64]:
    """[documents] what is sorted by, rising; infinite without a value."""
    columns = [part.columns.get(name) for part in fields.parts]
    ranks = _ranks([column for column in columns if column is not None])
    keys = []
    for part, column in zip(fields.parts, columns, strict=True):
        own = np.full(part.images, np.inf)
        if column is not None:
            values = ranks.pop(0) if column.words is not None else column.values
            signed = -values.astype(np.float64) if falling else values.astype(np.float64)
            np.minimum.at(own, column.documents, signed)
        keys.append(own)
    return np.concatenate(keys)


def _ranks(columns: list[FieldColumn]) -> list[NDArray[np.int64]]:
    """The place of each value of a keyword among the words of all parts, sorted in each."""
    words = [column.words.to_pylist() for column in columns if column.words is not None]
    if len(words) == 1:  # sorted already
        return [columns[0].values.astype(np.int64)]
    places = {word: place for place, word in enumerate(sorted(set().union(*words)))}
    return [
        np.array([places[word] for word in own], np.int64)[column.values]
        for own, column in zip(words, columns, strict=False)
    ]
