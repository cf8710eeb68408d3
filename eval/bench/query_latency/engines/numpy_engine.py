"""Exact search among vectors with one matrix product."""

from __future__ import annotations

import numpy as np

from eval.bench.query_latency.collections.dense_vectors import Vectors
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from indexer.dense.vectors import best

VECTORS = "vectors.npy"


class NumpyEngine(Engine[Vectors]):
    """All inner products, then a partition for the k best."""

    settings = "numpy: float32 matrix in memory @ query (BLAS on one core), then a partition"
    promise = Promise.ROUNDED

    def build(self) -> None:
        """The vectors as they are."""
        (self.folder / VECTORS).hardlink_to(self.data.path)

    def open(self) -> None:
        """Read them."""
        self._vectors = np.load(self.folder / VECTORS)[:, 0]

    def search(self, query: TermQuery, k: int) -> Answer:
        """Multiply and choose."""
        images, scores, _ = best(self._vectors @ self.data.queries[query.number], k)
        return Answer(images, scores)
