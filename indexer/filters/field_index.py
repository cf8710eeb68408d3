"""The fields of all documents of an index, and what filters let through."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from difflib import get_close_matches
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from indexer.fields.columns import FieldColumn, FieldPart
from indexer.fields.kinds import Kind
from indexer.filters.evaluate import evaluate
from indexer.filters.expression import Filter, FilterError, Where, conditions_of

REMEMBERED = 8  # filters


class FieldIndex:
    """Parts one after another: document d of the second is document N1 + d of the index.

    Args:
        parts: in the order of the documents; a field has the same kind in all of them. One that
            is shared with another index shares what it remembers.
        live: [documents] those that were not deleted; None if none was.
    """

    def __init__(self, parts: Sequence[FieldPart], live: NDArray[np.bool_] | None = None) -> None:
        self.parts = list(parts)
        self._live = live
        self._elsewhere: Mapping[str, Kind] = {}
        self._found: dict[Filter, NDArray[np.bool_]] = {}

    def among(self, kinds: Mapping[str, Kind]) -> Self:
        """The same for an index that is a part of a larger one.

        Args:
            kinds: of the fields of the whole.
        """
        part = copy(self)
        part._elsewhere = kinds
        return part

    @property
    def images(self) -> int:
        """Documents of all parts."""
        return sum(part.images for part in self.parts)

    def live(self) -> NDArray[np.bool_]:
        """[documents] which of them are not deleted; not to be changed."""
        return np.ones(self.images, np.bool_) if self._live is None else self._live

    @property
    def kinds(self) -> dict[str, Kind]:
        """The kind of each field."""
        return {**self._own_kinds, **self._elsewhere}

    @property
    def _own_kinds(self) -> dict[str, Kind]:
        return {name: kind for part in self.parts for name, kind in part.kinds.items()}

    def kind(self, name: str) -> Kind:
        """The kind of a field.

        Raises:
            FilterError: if no image has it, or it has another kind in the whole index.
        """
        return self._kind(name, None)

    def _kind(self, name: str, where: Where | None) -> Kind:
        own = self._own_kinds
        known = {**own, **self._elsewhere}
        if name not in known:
            raise FilterError(_unknown(name, list(known)), where)
        whole, here = known[name], own.get(name, known[name])
        if here != whole:
            raise FilterError(
                f"the field {name[:60]!r} is a {whole} in one shard of the index and a {here} "
                "in another, as the first images with it were: build the index with "
                f"--field {name[:60]}=KIND",
                where,
            )
        return whole

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

        Raises:
            FilterError: if no image has a field of the filter, or a condition does not fit the
                field's kind.
        """
        for condition in conditions_of(whole):
            self._kind(condition.field, condition.where)
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
