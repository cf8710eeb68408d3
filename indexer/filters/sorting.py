"""The order of images by the values of a field."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from indexer.fields.part import FieldColumn, FieldPart
from indexer.filters.expression import FilterError
from indexer.filters.field_index import FieldIndex


def first_by(
    fields: FieldIndex,
    order: str | None,
    found: NDArray[np.bool_],
    count: int,
    image_id: Callable[[int], str],
) -> NDArray[np.int64]:
    """The first of some documents in the order of a field; those without a value come last.

    Of several values the smallest counts, or the largest where the order falls. Ties are in the
    order of image ids.

    Args:
        fields: of an index.
        order: a field, with a minus before it for the largest first; None for image ids alone.
        found: [documents] those to order.
        count: documents at most.
        image_id: of a document.

    Raises:
        FilterError: if there is no such field, or its values have no order.
    """
    keys = np.zeros(fields.images)
    if order is not None:
        name = order.removeprefix("-")
        if fields.kind(name) == "geo":
            raise FilterError(f"sort {order[:60]}: points have no order")
        keys = _keys(fields, name, order.startswith("-"))
    candidates = np.flatnonzero(found)
    own = keys[candidates]
    if count < len(own):
        candidates = candidates[own <= np.partition(own, count - 1)[count - 1]]
    best, first = [], 0
    for part in fields.parts:
        start, end = np.searchsorted(candidates, [first, first + part.images])
        best.append(_first_of_part(part, first, candidates[start:end], keys, count))
        first += part.images
    candidates = np.concatenate(best)
    if len(best) > 1:
        ids = np.array([image_id(document) for document in candidates.tolist()], object)
        candidates = candidates[np.lexsort((ids, keys[candidates]))]
    return candidates[:count]


def sorted_by(fields: FieldIndex, order: str, document: int) -> float | str | None:
    """The value by which `first_by` sorts a document; of a date microseconds since 1970."""
    for part in fields.parts:
        if document < part.images:
            break
        document -= part.images
    column = part.columns.get(order.removeprefix("-"))
    if column is None or not column.filled[document]:
        return None
    values = column.values[column.starts[document] : column.starts[document + 1]]
    best = values.max() if order.startswith("-") else values.min()
    found: float | str = float(best) if column.words is None else column.words[int(best)].as_py()
    return found


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
