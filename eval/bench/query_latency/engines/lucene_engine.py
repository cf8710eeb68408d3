"""Lucene, as `sparta search` uses it."""

from __future__ import annotations

import numpy as np

from eval.bench.query_latency.collections.corpus import Corpus, CorpusRows
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from indexer.lucene.parallel_writer import LuceneWriter
from indexer.lucene.reader import LuceneIndex
from indexer.parts import LUCENE
from indexer.postings import Postings


class LuceneEngine(Engine[Corpus]):
    """Impacts as term frequencies, one segment, no grounding."""

    settings = (
        "Lucene 9.9 as sparta search calls it: impacts as term frequencies, one segment, read "
        "through memory maps; calls into Java take turns, so that threads gain nothing"
    )
    promise = Promise.ORDER

    def build(self) -> None:
        """Write one document an image."""
        done, images = 0, self.data.images
        with LuceneWriter(self.folder / LUCENE, self.data.vocabulary, images) as writer:
            for rows in self.data.rows():
                writer.add(_postings(rows, done))
                done += len(rows)

    def open(self) -> None:
        """Open the index."""
        self._index = LuceneIndex(self.folder / LUCENE)

    def search(self, query: TermQuery, k: int) -> Answer:
        """One call into Java for the query, one for the hits."""
        found = np.array(self._index.top(query.pieces, k), np.float64).reshape(-1, 2)
        return Answer(found[:, 0].astype(np.int32), found[:, 1])

    def close(self) -> None:
        """Close the index."""
        self._index.close()
        super().close()


def _postings(rows: CorpusRows, first: int) -> Postings:
    """Rows of images that are named by number and have no regions."""
    return Postings.without_grounding(
        ids=[f"{number:09d}" for number in range(first, first + len(rows))],
        metadata=[{}] * len(rows),
        starts=rows.starts,
        terms=rows.terms,
        impacts=rows.impacts,
    )
