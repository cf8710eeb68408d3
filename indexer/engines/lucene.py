"""Searches with the Lucene index that a build or a merge wrote beside the segments."""

from __future__ import annotations

from pathlib import Path

from indexer.engines.columns import OF_SEGMENTS, ColumnsEngine, Mask
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.search.engine import Plan
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError


class LuceneEngine(ColumnsEngine):
    """Lucene finds and scores images; all else is answered by the segments.

    Both number the images in the order of their ids.

    Args:
        folder: of an index in one segment, as a build or a merge leaves it.
        vocabulary: [V] terms in id order.

    Raises:
        InputError: if it was written to, there is no Lucene index, or it is damaged.
    """

    can = OF_SEGMENTS
    name = "lucene"

    def __init__(self, folder: Path, vocabulary: list[str]) -> None:
        super().__init__(Snapshot.open(folder))
        self._folder, self._vocabulary = folder, vocabulary
        snapshot, last = self.snapshot, self.snapshot.documents - 1
        if len(snapshot.segments.all) > 1 or any(map(len, snapshot.newest)):
            raise self._outdated()
        self._lucene = lucene = LuceneIndex(folder / LUCENE)
        same = len(lucene) == len(snapshot) == snapshot.documents
        if not same or any(lucene.stored(n) != snapshot.stored(n) for n in {0, last} if n >= 0):
            lucene.close()  # Java would keep its files
            raise self._outdated()

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        terms = " ".join(
            " ".join([self._vocabulary[term]] * count) for term, count in plan.terms.items()
        )
        found = self._lucene.top(terms, k, allowed) if terms else []
        return [document for document, _ in found], [score for _, score in found]

    def refreshed(self) -> None:
        """Nothing: Lucene's files stay as they were written; see `Engine.refreshed`.

        Raises:
            InputError: if the index was written to.
        """
        if self.snapshot.refreshed() is not None:
            raise self._outdated()

    def _outdated(self) -> InputError:
        return InputError(
            f"{self._folder} was written to after {LUCENE}/ was: search columns, or write it anew "
            "with `sparta merge`"
        )

    def close(self) -> None:
        """Close Lucene's files."""
        self._lucene.close()
