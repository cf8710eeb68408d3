"""Searches with the Lucene index that was written beside the segments."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.engines._today import Snapshot
from indexer.engines.columns import OF_SEGMENTS, ColumnsEngine, Mask
from indexer.live.commit import Commit
from indexer.lucene.integrity import check_small_index
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.search.engine import Plan

AT_ONCE = 65_536  # images whose ids are read together


class LuceneEngine(ColumnsEngine):
    """Lucene finds and scores images; all else is answered by the segments of the same commit.

    Args:
        folder: of the index.
        snapshot: of its commit.
        lucene: open at the same commit.
        vocabulary: [V] terms in id order.
    """

    can = OF_SEGMENTS
    name = "lucene"

    def __init__(
        self, folder: Path, snapshot: Snapshot, lucene: LuceneIndex, vocabulary: list[str]
    ) -> None:
        super().__init__(snapshot)
        self._folder, self._lucene, self._vocabulary = folder, lucene, vocabulary

    @classmethod
    def open(cls, folder: Path, vocabulary: list[str]) -> LuceneEngine:
        """Open the newest commit of an index folder.

        Raises:
            InputError: if the segments or Lucene's files are damaged.
        """
        while True:
            snapshot = Snapshot.open(folder)
            check_small_index(folder / LUCENE)
            lucene = LuceneIndex(folder / LUCENE)
            if Commit.of(lucene.commit_data, folder) == snapshot.commit:
                return cls(folder, snapshot, lucene, vocabulary)
            lucene.close()  # the next commit came between the two

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        terms = " ".join(
            " ".join([self._vocabulary[term]] * count) for term, count in plan.terms.items()
        )
        own = None if allowed is None else allowed[self._documents]
        found = self._lucene.top(terms, k, own) if terms else []
        numbers = self._documents[[document for document, _ in found]] if found else found
        return list(map(int, numbers)), [score for _, score in found]

    @cached_property
    def _documents(self) -> NDArray[np.int64]:
        """The segments' number of each of Lucene's documents; of deleted ones the first."""
        count = self._lucene.documents
        if not self.snapshot.commit.version:  # both as built, in the order of the ids
            return np.arange(count)
        found = []
        for first in range(0, count, AT_ONCE):
            stored = self._lucene.read_stored(range(first, min(first + AT_ONCE, count)))
            found += [self.snapshot.document(image_id) or 0 for image_id, _ in stored]
        return np.array(found, np.int64)

    def refreshed(self) -> LuceneEngine | None:
        """The engine at the newest commit; see `Engine.refreshed`."""
        if self.snapshot.refreshed() is None:
            return None
        return LuceneEngine.open(self._folder, self._vocabulary)

    def close(self) -> None:
        """Close Lucene's files."""
        self._lucene.close()
