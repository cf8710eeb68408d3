"""scipy's compressed sparse columns."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from eval.bench.query_latency.engines.inverted_lists import read_lists, write_lists
from indexer.dense.vectors import best


class ScipyEngine(Engine[Corpus]):
    """The query's columns times its counts; partition for the k best."""

    settings = "scipy csc_array with int32 images and the smallest impacts: columns @ counts"
    promise = Promise.ORDER

    def build(self) -> None:
        """Write the inverted lists."""
        write_lists(
            self.data, self.folder, np.dtype(np.uint8 if self.data.bits <= 8 else np.uint16)
        )

    def open(self) -> None:
        """Read them."""
        starts, documents, impacts = read_lists(self.folder)
        shape = (self.data.images, len(self.data.vocabulary))
        # With starts of 64 bits, scipy would widen the images to as many.
        starts = starts.astype(np.int32 if self.data.postings < 2**31 else np.int64)
        self._columns = csc_array((impacts, documents, starts), shape=shape)

    def search(self, query: TermQuery, k: int) -> Answer:
        """Multiply and choose."""
        counts = np.array(list(query.terms.values()), np.int32)
        scores = np.asarray(self._columns[:, list(query.terms)] @ counts)
        found = np.flatnonzero(scores)  # a partition takes several times as long among many zeros
        places, kept, _ = best(scores[found], k)
        return Answer(found[places], kept)
