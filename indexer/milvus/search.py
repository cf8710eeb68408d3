"""Searches the images of an index in Milvus, beside the index."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from indexer.filters.field_index import FieldIndex
from indexer.milvus.finder import MilvusFinder, Remote
from indexer.milvus.rows import GROUNDING, IMPACTS
from indexer.query import Query
from indexer.search.api import Allowed, Explanation, SearchResult, SimilarResult
from indexer.search.lucene import LuceneSearcher
from indexer.search.words import Completion, HeldWord


def open_milvus(folder: Path, sparse: LuceneSearcher, uri: str, name: str) -> MilvusSearcher:
    """The searcher of an index in a Milvus, to which the first query connects.

    Args:
        folder: the index.
        sparse: searcher of it, to be closed last.
        uri: of the server.
        name: that the index was pushed with.
    """
    return MilvusSearcher(Remote(folder, uri, name, len(sparse.tokenizer.vocabulary)), sparse)


class MilvusSearcher:
    """Returns the hits of `LuceneSearcher` while the collection has what the index has.

    Milvus finds and scores the images, and gives what explains their scores. Queries are read,
    and filters and signs evaluated, by the index. Safe from any thread.

    Attributes:
        engine: its name, for metrics.

    Args:
        remote: the collection that the index was pushed to.
        sparse: searcher of the index, to be closed last.
    """

    engine = "milvus"

    def __init__(self, remote: Remote, sparse: LuceneSearcher) -> None:
        self._remote, self._sparse = remote, sparse
        terms = {term: number for number, term in enumerate(sparse.tokenizer.vocabulary)}
        self._finder = MilvusFinder(remote, sparse.finder, terms)
        self._found = sparse.with_finder(self._finder)

    def following(self, sparse: LuceneSearcher) -> MilvusSearcher:
        """The same collection beside another commit of the index."""
        return MilvusSearcher(self._remote, sparse)

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images for a text; see `Searcher.search`.

        Raises:
            UnavailableError: if the server does not answer.
            UnanswerableError: if it cannot return as many images as would be needed.
        """
        return self._found.search(
            query, k, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        """The k images most similar to indexed ones; see `Searcher.similar` and `search`."""
        return self._found.similar(image_id, k, words=words, allowed=allowed)

    def similar_to(
        self, impacts: Mapping[str, int], k: int = 10, *, allowed: Allowed | None = None
    ) -> SimilarResult:
        """The k images most similar to one with these impacts; see `PhotoSearcher`."""
        return self._found.similar_to(impacts, k, allowed=allowed)

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text; see `Explainer.explain`."""
        return self.explain_all(query, [image_id], substitute=substitute)[0]

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
        grounded: bool = True,
    ) -> list[Explanation]:
        """Explain many images' scores by what Milvus has of them; see `Explainer.explain_all`.

        Raises:
            UnavailableError: if the server does not answer.
        """
        words, terms = self._sparse.terms_of(query, substitute)
        rows = self._finder.rows(image_ids, IMPACTS, *([GROUNDING] if grounded else []))
        impacts = self._finder.impacts_of(rows, [term.term for term in terms])
        packed = [base64.b64decode(row[GROUNDING]) for row in rows] if grounded else None
        return self._sparse.explained(image_ids, words, terms, impacts, packed)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self._sparse.metadata(image_id)

    def field_index(self) -> FieldIndex:
        """The typed fields of the images; see `Filterable.field_index`."""
        return self._sparse.field_index()

    def __len__(self) -> int:
        return len(self._sparse)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        """Queries whose last word is one of the index; see `Suggester.complete`."""
        return self._sparse.complete(text, most)

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        """The words of the index nearest to one; see `Suggester.correct`."""
        return self._sparse.correct(word, most)

    def close(self) -> None:
        """Leave the connection, which searchers of other commits share."""
