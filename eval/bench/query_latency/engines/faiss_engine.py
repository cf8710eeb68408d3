"""FAISS: exact, along a graph, and in compressed lists."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import faiss
import numpy as np

from eval.bench.query_latency.collections.dense_vectors import Vectors
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from eval.bench.query_latency.engines.numpy_engine import VECTORS
from indexer.dense.vectors import EF_CONSTRUCTION, EF_SEARCH, NEIGHBOURS

INDEX = "vectors.faiss"


class _Faiss(Engine[Vectors]):
    """An index that is asked with one vector at a time."""

    _index: Any

    def search(self, query: TermQuery, k: int) -> Answer:
        """Ask with one vector."""
        found = self._index.search(self.data.queries[query.number][None], k)
        scores, images = found[0][0], found[1][0]
        return Answer(images[images >= 0], scores[images >= 0])


class FaissFlat(_Faiss):
    """Every vector is compared."""

    settings = "FAISS IndexFlatIP, one core"
    promise = Promise.ROUNDED

    def build(self) -> None:
        """The vectors as they are, which the index would hold once more."""
        (self.folder / VECTORS).hardlink_to(self.data.path)

    def open(self) -> None:
        """Add all vectors, one row for each view."""
        self._index = faiss.IndexFlatIP(self.data.open().shape[-1])
        _add(self._index, self.data)


class FaissFlatViews(FaissFlat):
    """Several vectors for each image, whose best one counts."""

    settings = "FAISS IndexFlatIP over all views, the K·k best rows grouped by image, one core"

    def open(self) -> None:
        """Add all vectors."""
        super().open()
        self._views = self.data.open().shape[1]

    def search(self, query: TermQuery, k: int) -> Answer:
        """The K·k best rows are of k images at least."""
        rows = super().search(query, k * self._views)
        images, first = np.unique(rows.documents // self._views, return_index=True)
        order = np.argsort(first)[:k]
        return Answer(images[order], rows.scores[first[order]])


class _Learnt(_Faiss):
    """An index that takes long to build."""

    @abstractmethod
    def create(self, dimension: int) -> Any:
        """An index without vectors, trained if it needs training."""

    def build(self) -> None:
        """Add all vectors."""
        index = self.create(self.data.open().shape[-1])
        _add(index, self.data)
        faiss.write_index(index, str(self.folder / INDEX))

    def open(self) -> None:
        """Read the index."""
        self._index = faiss.read_index(str(self.folder / INDEX))


def _add(index: Any, vectors: Vectors) -> None:
    for chunk in vectors.chunks():
        index.add(chunk.reshape(-1, chunk.shape[-1]))


class FaissHnsw(_Learnt):
    """HNSW."""

    settings = (
        f"FAISS IndexHNSWFlat as sparta index-dense --hnsw builds it: {NEIGHBOURS} neighbours, "
        f"efConstruction {EF_CONSTRUCTION}, efSearch {EF_SEARCH} or k if that is more"
    )
    promise = Promise.NEAR

    def create(self, dimension: int) -> Any:
        """A graph without vectors."""
        graph = faiss.IndexHNSWFlat(dimension, NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
        graph.hnsw.efConstruction = EF_CONSTRUCTION
        return graph

    def open(self) -> None:
        """Read the graph."""
        super().open()
        self._index.hnsw.efSearch = EF_SEARCH
