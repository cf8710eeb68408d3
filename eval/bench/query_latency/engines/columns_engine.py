"""This project's columns of impacts in memory."""

from __future__ import annotations

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.engines.base import Answer, Engine, Promise
from indexer.columns.builder import build_columns
from indexer.columns.index import ColumnIndex

COLUMNS = "columns"


class ColumnsEngine(Engine[Corpus]):
    """The columns as `sparta serve --engine columns` searches them."""

    settings = "as sparta serve searches them: memory-mapped, read ahead, one core a query"
    promise = Promise.ORDER

    def build(self) -> None:
        """Write the columns."""
        corpus = self.data
        build_columns(self.folder / COLUMNS, corpus.rows(), len(corpus.vocabulary), corpus.bits)

    def open(self) -> None:
        """Map the columns."""
        self._index = ColumnIndex.open(self.folder / COLUMNS)

    def read_ahead(self) -> None:
        """Read them from disk, as a server does."""
        self._index.read_ahead()

    def search(self, query: TermQuery, k: int) -> Answer:
        """Sum the columns."""
        return Answer(*self._index.top(query.terms, k))
