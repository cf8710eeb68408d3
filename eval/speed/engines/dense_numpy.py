"""Exact search among vectors with one matrix product."""

from __future__ import annotations

import numpy as np

from eval.speed.engines.base import Answer, Engine, Promise
from eval.speed.queries import Query
from eval.speed.vectors import Vectors
from indexer.vectors import best


class NumpyProduct(Engine[Vectors]):
    """All inner products, then a partition for the k best."""

    settings = "numpy: float32 matrix in memory @ query (BLAS on one core), then a partition"
    promise = Promise.ROUNDED

    def build(self) -> None:
        """The vectors are on disk already."""

    def open(self) -> None:
        """Read them."""
        self._vectors = np.load(self.data.path)[:, 0]

    def search(self, query: Query, k: int) -> Answer:
        """Multiply and choose."""
        images, scores, _ = best(self._vectors @ self.data.queries[query.number], k)
        return Answer(images, scores)

    def memory_bytes(self) -> int:
        """Of the matrix."""
        return int(self._vectors.nbytes)
