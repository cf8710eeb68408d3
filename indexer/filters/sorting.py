"""The order of images by the values of a field."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.fields.part import FieldColumn
from indexer.filters.expression import FilterError
from indexer.filters.field_index import FieldIndex


def first_by(
    fields: FieldIndex, order: str, found: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """The first of some documents in the order of a field; those without a value come last.

    Of several values the smallest counts, or the largest where the order falls. Ties are in the
    order of document numbers.

    Args:
        fields: of an index.
        order: a field, with a minus before it for the largest first.
        found: [documents] those to order.
        count: documents at most.

    Raises:
        FilterError: if there is no such field, or its values have no order.
    """
    name = order.removeprefix("-")
    if fields.kind(name) == "geo":
        raise FilterError(f"sort {order[:60]}: points have no order")
    keys = _keys(fields, name, order.startswith("-"))
    candidates = np.flatnonzero(found)
    own = keys[candidates]
    if count < len(own):
        least = np.partition(own, count - 1)[count - 1]
        candidates, own = candidates[own <= least], own[own <= least]
    first: NDArray[np.int64] = candidates[np.argsort(own, kind="stable")][:count]
    return first


def _keys(fields: FieldIndex, name: str, falling: bool) -> NDArray[np.float64]:
    """[documents] what is sorted by, rising; infinite without a value."""
    parts = fields.whole_columns(name)
    ranks = _ranks([column for column, _ in parts if column is not None])
    keys = []
    for column, images in parts:
        own = np.full(images, np.inf)
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
