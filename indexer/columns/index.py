"""Columns opened for searching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.engine import best_documents, impacts_at, impacts_of_row, occupied
from indexer.columns.integrity import check_columns
from indexer.columns.layout import LEVELS, NARROW, Columns
from indexer.columns.masks import Remembered

PAGE = 4096  # bytes
_ALL: NDArray[np.bool_] = np.empty(0, np.bool_)
_FIRST: NDArray[np.int64] = np.zeros(1, np.int64)


class ColumnIndex:
    """Sums impacts over columns mapped from disk (equation 15 on integers). Safe from any thread.

    Args:
        columns: of an index's images.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        # Plain lists: a few terms are looked up faster there than in arrays.
        self._rows: list[int] = columns.row_of.tolist()
        self._largest: list[int] = columns.maxima.max(axis=1, initial=0).tolist()
        # A level may allow that much more than the largest impact.
        bounds = [largest + LEVELS for largest in self._largest]
        self._bounds = [bounds[row] if row >= 0 else 0 for row in self._rows]
        self._masks: Remembered[NDArray[np.bool_]] = Remembered()

    @classmethod
    def open(cls, folder: Path) -> ColumnIndex:
        """Map the files of a folder that `build_columns` wrote.

        Raises:
            InputError: if they are damaged so that they do not fit together.
        """
        columns = Columns.map(folder)
        check_columns(columns, folder)
        return cls(columns)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.columns.order)

    def read_ahead(self) -> None:
        """Touch every page of the files, so that no query waits for the disk or the page table."""
        for array in self.columns:
            array.reshape(-1).view(np.uint8)[::PAGE].max(initial=0)

    def top(
        self, terms: Mapping[int, int], k: int, allowed: NDArray[np.bool_] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The k documents with the largest sums of count × impact.

        Args:
            terms: vocabulary ids of a query's terms, and how often it contains each.
            k: documents at most.
            allowed: [N] documents that may be found; None for all.

        Returns:
            documents and scores, both [<= k]: falling by score, ties by document number; only
            documents that share a term with the query.

        Raises:
            ValueError: if k is not positive, or the query is so long that a sum could overflow.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        found = {term: count for term, count in terms.items() if self._bounds[term]}
        if not found:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        bound = sum([count * self._bounds[term] for term, count in found.items()])
        if bound >= 2**31:
            raise ValueError(f"scores of this query could reach {bound:,}: it is too long")
        return best_documents(
            [self.columns],
            _FIRST,
            np.array([*found], np.int64),
            np.array([*found.values()], np.uint16 if bound < NARROW else np.uint32),
            _ALL if allowed is None else allowed,
            _ALL if allowed is None else self._masks.of(allowed, self._occupied),
            min(k, len(self)),
        )

    def _occupied(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return occupied(self.columns.order, allowed)

    def impacts(self, documents: Sequence[int], terms: Sequence[int]) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some documents, 0 where one lacks a term.

        Args:
            documents: numbers.
            terms: vocabulary ids.
        """
        rows = self.columns.row_of[np.array(terms, np.int64)].astype(np.int64)
        return impacts_at(self.columns, self._positions[np.array(documents, np.int64)], rows)

    def largest_impact(self, term: int) -> int:
        """The largest impact of any document for a term of the vocabulary, 0 if none has it."""
        row = self._rows[term]
        return self._largest[row] if row >= 0 else 0

    def term_impacts(self, term: int) -> NDArray[np.uint16]:
        """The impacts [N] of all documents for a term of the vocabulary, 0 where one lacks it."""
        row = self._rows[term]
        if row < 0:
            return np.zeros(len(self), np.uint16)
        return impacts_of_row(self.columns, row)

    @cached_property
    def document_frequencies(self) -> NDArray[np.int64]:
        """[V] in how many documents each term of the vocabulary has an impact."""
        columns = self.columns
        # The last row, of a term that no document has, is that of -1.
        found = np.append(columns.frequencies, 0)
        return found[columns.row_of]

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        """[N], the position of each document."""
        positions = np.empty(len(self), np.int64)
        positions[self.columns.order] = np.arange(len(self))
        return positions
