"""The order of images by the values of a field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from indexer.fields.part import FieldColumn, FieldPart
from indexer.filters.expression import FilterError
from indexer.filters.field_index import FieldIndex


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
        image_id: of a document.

    Raises:
        FilterError: if there is no such field, or its values have no order.
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
        """The first of some documents.

        Args:
            found: [documents] those to order.
            count: documents at most.
        """
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
    part: FieldPart,
    first: int,
    documents: NDArray[np.int64],
    keys: NDArray[np.float64],
    count: int,
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
