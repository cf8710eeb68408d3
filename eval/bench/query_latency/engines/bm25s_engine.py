"""bm25s: scores computed when indexing, summed term by term when searching."""

from __future__ import annotations

import bm25s
import numpy as np

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from eval.bench.query_latency.engines.inverted_lists import read_lists, write_lists


class Bm25sEngine(Engine[Corpus]):
    """The library's retrieval over our impacts instead of BM25 scores."""

    settings = "bm25s with its numba backend, float32 scores and int32 images, given our impacts"
    promise = Promise.SCORES

    def build(self) -> None:
        """Write the lists the library would compute."""
        write_lists(self.data, self.folder, np.dtype(np.float32))

    def open(self) -> None:
        """Pass them to the library."""
        starts, documents, scores = read_lists(self.folder)
        self._model = bm25s.BM25(backend="numba")
        self._model.scores = {
            "data": scores,
            "indices": documents,
            "indptr": starts,
            "num_docs": self.data.images,
        }
        self._model.nonoccurrence_array = None
        self._model.unique_token_ids_set = range(len(self.data.vocabulary))

    def search(self, query: TermQuery, k: int) -> Answer:
        """Search; a repeated term is passed as often as it occurs."""
        terms = [term for term, count in query.terms.items() for _ in range(count)]
        k = min(k, self.data.images)
        (documents,), (scores,) = self._model.retrieve([terms], k=k, show_progress=False)
        return Answer(documents[scores > 0], scores[scores > 0])
