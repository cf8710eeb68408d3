"""The fields of all documents of an index, and the bitmaps of filters, cached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from indexer.fields.kinds import Kind
from indexer.fields.part import FieldColumn, FieldPart
from indexer.filters.evaluate import evaluate
from indexer.filters.expression import Filter, FilterError, conditions_of

BITMAPS = 64  # of filters, cached for each part


class CachedPart:
    """A part with the bitmaps of the filters used last; immutable, and safe from any thread."""

    def __init__(self, part: FieldPart) -> None:
        self.part = part
        self.bitmap = lru_cache(BITMAPS)(self._evaluate)

    def _evaluate(self, whole: Filter) -> NDArray[np.bool_]:
        return evaluate(whole, self.part)


class FieldIndex:
    """Parts one after another: document d of the second is document N1 + d of the index.

    Args:
        parts: in the order of the documents; one that is shared with another index shares its
            cache.
        live: [documents] those that were not deleted; None if none was.
    """

    def __init__(self, parts: Sequence[CachedPart], live: NDArray[np.bool_] | None = None) -> None:
        self.parts = list(parts)
        self._live = live

    @property
    def images(self) -> int:
        """Documents of all parts."""
        return sum(one.part.images for one in self.parts)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each field."""
        return {
            name: column.kind
            for one in reversed(self.parts)
            for name, column in one.part.columns.items()
        }

    def kind(self, name: str) -> Kind:
        """The kind of a field.

        Raises:
            FilterError: if no image has it.
        """
        known = self.kinds
        if name not in known:
            raise FilterError(_unknown(name, list(known)))
        return known[name]

    def columns(
        self, name: str, found: NDArray[np.bool_]
    ) -> Iterator[tuple[FieldColumn, NDArray[np.bool_]]]:
        """A field's columns, each with its share of flags [documents]."""
        first = 0
        for one in self.parts:
            images = one.part.images
            if name in one.part.columns:
                yield one.part.columns[name], found[first : first + images]
            first += images

    def whole_columns(self, name: str) -> list[tuple[FieldColumn | None, int]]:
        """A field's column of each part, None where it has none, and the images of the part."""
        return [(one.part.columns.get(name), one.part.images) for one in self.parts]

    def allowed(self, whole: Filter) -> NDArray[np.bool_]:
        """[documents] which of them a filter lets through; not to be changed.

        Raises:
            FilterError: if no image has a field of the filter, or a condition does not fit the
                field's kind.
        """
        known = self.kinds
        for condition in conditions_of(whole):
            if condition.field not in known:
                raise FilterError(_unknown(condition.field, list(known)), condition.where)
        bitmaps = [one.bitmap(whole) for one in self.parts]
        found = bitmaps[0] if len(bitmaps) == 1 else np.concatenate(bitmaps)
        return found if self._live is None else found & self._live


def _unknown(name: str, known: list[str]) -> str:
    """Why a name is no field, with those that look like it, else all."""
    near = get_close_matches(name[:60], known, 3) or sorted(known)[:30]
    return f"no image has the field {name[:60]!r}; there is {', '.join(near)}"
