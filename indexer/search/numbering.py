"""Searchers that name images by numbers: a caller may have what it needs of them already."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

from indexer.lucene.stored import Stored
from indexer.query.query import Query
from indexer.search.api import Condition, Searcher, Selection, Timings
from indexer.search.terms.query_reader import ReadQuery, ReadWord


class Found(NamedTuple):
    """What a search found, before anything is read of the images.

    Attributes:
        documents: their numbers and scores, which are whole; in the order of the hits.
        read: the query.
        conditions: see `SearchResult`.
        words: of the query if there is a least coverage, else none.
        start: of the search, by `perf_counter`.
        tokenised: when the query had been read.
    """

    documents: list[tuple[int, float]]
    read: ReadQuery
    conditions: list[Condition]
    words: list[ReadWord]
    start: float
    tokenised: float

    def timings(self) -> Timings:
        """The times of the search, which ends now."""
        end = perf_counter()
        tokenise, search = 1000 * (self.tokenised - self.start), 1000 * (end - self.tokenised)
        return Timings(tokenise, search, tokenise + search)


@runtime_checkable
class Numbering(Searcher, Protocol):
    """A searcher whose images have numbers, which stay the same as long as it is open."""

    def find(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Selection | None = None,
        min_coverage: float | None = None,
    ) -> Found:
        """As `search`, for callers that know the images by their numbers."""
        ...

    def stored(self, document: int) -> Stored:
        """The id and the metadata of an image."""
        ...
