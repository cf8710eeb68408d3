"""Everything that a text finds: how many images, their facets, and pages in another order."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from indexer.filters.facets import Bucket, Value, count_values, most_frequent
from indexer.filters.field_index import FieldIndex
from indexer.filters.sorting import Order
from indexer.query import Query
from indexer.search.api import Allowed, Hit, Matching, SearchResult, Selection, Timings
from indexer.search.paging import Position


class Matcher(Protocol):
    """A searcher that can name all documents that match: a `LuceneSearcher`."""

    def matching(  # noqa: D102
        self,
        query: str | Query,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> Matching: ...
    def hits(  # noqa: D102
        self, found: Iterable[tuple[int, float]], first: int = 1
    ) -> list[Hit]: ...
    def image_id(self, document: int) -> str: ...  # noqa: D102
    def field_index(self) -> FieldIndex: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Page:
    """What is wanted of all that matches.

    Attributes:
        k: hits at most.
        offset: hits before the first one.
        order: a field to sort by, with a minus for the largest first; None for the score, or
            without words for the image id.
        facets: see `count_values`.
        after: where the page begins, in place of an offset.
    """

    k: int
    offset: int = 0
    order: str | None = None
    facets: Sequence[str] = ()
    after: Position | None = None

    @property
    def falling(self) -> bool:
        """Whether the largest value comes first."""
        return self.order is None or self.order.startswith("-")

    @property
    def skipped(self) -> int:
        """Hits before the first one of the page."""
        return self.offset if self.after is None else self.after.rank


@dataclass(slots=True)
class Browsed:
    """A page of all that matches.

    Attributes:
        result: the hits of the page, in the order that was wanted.
        total: images that share a term with the text and are allowed.
        facets: values of fields over all of those, by facet.
        last: the place of the last hit, with which the next page begins; None without hits.
    """

    result: SearchResult
    total: int
    facets: dict[str, list[Bucket]]
    last: Position | None


@dataclass(slots=True)
class Survey:
    """All that matches, or that matches in a shard, before pages and facets are cut.

    Attributes:
        hits: the first in the order that was wanted, or the first after a place in it.
        values: by which each was ordered.
        total: images that match.
        counts: values of fields over all of those, by facet.
        matching: the words of the text; without scores.
    """

    hits: list[Hit]
    values: list[float | str | None]
    total: int
    counts: dict[str, Counter[Value]]
    matching: Matching

    def browsed(self, page: Page, milliseconds: float) -> Browsed:
        """The page."""
        first = page.offset if page.after is None else 0
        hits = self.hits[first : first + page.k]
        for rank, hit in enumerate(hits, page.skipped + 1):
            hit.rank = rank
        result = SearchResult(
            hits,
            self.matching.unknown,
            Timings(0.0, milliseconds, milliseconds),
            rare=self.matching.rare,
            substitutions=self.matching.substitutions,
            conditions=self.matching.conditions,
        )
        last = None
        if hits:
            last = Position(self.values[first + len(hits) - 1], hits[-1].image_id, hits[-1].rank)
        facets = {facet: most_frequent(counts, facet) for facet, counts in self.counts.items()}
        return Browsed(result, self.total, facets, last)


@runtime_checkable
class Browsable(Protocol):
    """A searcher that can count, order and page all images that match a text."""

    def browse(
        self,
        query: str,
        page: Page,
        *,
        substitute: bool = True,
        allowed: Selection | None = None,
        min_coverage: float | None = None,
    ) -> Browsed:
        """A page of all images that match; costs more than the best few alone.

        Args:
            query: any text; without words, all images that are allowed match, with a score of 0.
            page: what is wanted.
            substitute: see `Searcher.search`.
            allowed: images that may be found; None for all.
            min_coverage: see `Searcher.search`; the hits do not have theirs.

        Raises:
            FilterError: if there is no such field, or it has no order or no facets.
            TypeError: if the page begins in an order of other values.
        """
        ...

    def ids(self, allowed: Selection) -> list[str]:
        """The ids of the images that a filter lets through."""
        ...


def browse(
    searcher: Matcher,
    query: str,
    page: Page,
    *,
    substitute: bool = True,
    allowed: Allowed | None = None,
    min_coverage: float | None = None,
) -> Browsed:
    """See `Browsable.browse`."""
    start = time.perf_counter()
    found = survey(
        searcher,
        query,
        page,
        substitute=substitute,
        allowed=allowed,
        min_coverage=min_coverage,
    )
    return found.browsed(page, 1000 * (time.perf_counter() - start))


def survey(
    searcher: Matcher,
    query: str | Query,
    page: Page,
    *,
    substitute: bool = True,
    allowed: Allowed | None = None,
    min_coverage: float | None = None,
) -> Survey:
    """Count all images that match, and order as many as a page needs."""
    fields = searcher.field_index()
    if (query if isinstance(query, str) else query.text).strip():
        matching = searcher.matching(
            query, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )
        found = matching.scores > 0
    else:
        matching = Matching(np.zeros(fields.images), [], [], [], [])
        found = fields.live() if allowed is None else allowed
    counted = {facet: count_values(fields, facet, found) for facet in page.facets}
    ordered = Order(fields, page.order, matching.scores, searcher.image_id)
    first = _first(ordered, found, page)
    hits = searcher.hits((one, float(matching.scores[one])) for one in first)
    matching.scores = np.empty(0)  # of all documents, which go nowhere
    values = [ordered.value(document) for document in first]
    return Survey(hits, values, int(found.sum()), counted, matching)


def _first(order: Order, found: NDArray[np.bool_], page: Page) -> list[int]:
    """The first documents in an order, or those after a place in it."""
    after = page.after
    if after is None:
        return order.first(found, page.offset + page.k)
    wanted = after.rank + page.k
    while True:
        first = order.first(found, wanted)
        later = [
            document
            for document in first
            if after.before(order.value(document), order.image_id(document), order.falling)
        ]
        if len(later) >= page.k or len(first) < wanted:
            return later[: page.k]
        wanted *= 2
