"""Searches with the Lucene index that a build or a merge wrote beside the segments."""

from __future__ import annotations

import logging
from pathlib import Path

from indexer.engines.columns import OF_SEGMENTS, ColumnsEngine, Mask
from indexer.lucene.reader import open_lucene
from indexer.search.engine import Plan
from indexer.store.commit import lucene_commit, read_commit
from indexer.store.snapshot import Snapshot

log = logging.getLogger(__name__)


class LuceneEngine(ColumnsEngine):
    """Lucene finds and scores images; all else is answered by the one segment of their commit.

    That segment is kept until a merge writes Lucene's index anew: what is written since is not
    found before. Both number the images in the order of their ids.

    Args:
        folder: of the index.
        vocabulary: [V] terms in id order.

    Raises:
        InputError: if there is no Lucene index, or one of them is damaged.
    """

    can = OF_SEGMENTS
    name = "lucene"

    def __init__(self, folder: Path, vocabulary: list[str]) -> None:
        super().__init__(Snapshot.open(folder, lucene_commit(folder)))
        self._folder, self._vocabulary = folder, vocabulary
        self._lucene = open_lucene(folder, self.snapshot.commit)
        if behind := read_commit(folder).changes - self.snapshot.commit.changes:
            log.warning(
                "%s: Lucene's index is %d changes behind: bring it up to date with `sparta merge`",
                *(folder, behind),
            )

    def _best(self, plan: Plan, k: int, allowed: Mask | None) -> tuple[list[int], list[float]]:
        terms = " ".join(
            " ".join([self._vocabulary[term]] * count) for term, count in plan.terms.items()
        )
        found = self._lucene.top(terms, k, allowed) if terms else []
        return [document for document, _ in found], [score for _, score in found]

    def refreshed(self) -> LuceneEngine | None:
        """The engine of Lucene's newest index; see `Engine.refreshed`."""
        if lucene_commit(self._folder) in (None, self.snapshot.commit):
            return None
        return LuceneEngine(self._folder, self._vocabulary)

    def close(self) -> None:
        """Close Lucene's files."""
        self._lucene.close()
