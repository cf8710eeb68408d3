"""Everything that a text finds: how many images, their facets, and pages in another order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from indexer.filters.facets import Bucket, count_values
from indexer.filters.field_index import FieldIndex
from indexer.filters.sorting import Order
from indexer.search.api import Allowed, Hit, Matching, SearchResult, Timings
from indexer.search.paging import Position


@runtime_checkable
class Browsable(Protocol):
    """A searcher that can name all documents that match: a `LuceneSearcher`."""

    def matching(  # noqa: D102
        self,
        query: str,
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


def browse(
    searcher: Browsable,
    query: str,
    k: int,
    *,
    offset: int = 0,
    order: str | None = None,
    facets: Sequence[str] = (),
    after: Position | None = None,
    substitute: bool = True,
    allowed: Allowed | None = None,
    min_coverage: float | None = None,
) -> Browsed:
    """Count, order and page all images that match a text; costs more than the best few alone.

    Args:
        searcher: of the images.
        query: any text; without words, all images that are allowed match, with a score of 0.
        k: hits at most.
        offset: hits before the first one.
        order: a field to sort by, with a minus for the largest first; None for the score, or
            without words for the image id.
        facets: see `count_values`.
        after: where the page begins, in place of an offset.
        substitute: see `Searcher.search`.
        allowed: documents that may be found; None for all.
        min_coverage: see `Searcher.search`; the hits do not have theirs.

    Raises:
        FilterError: if there is no such field, or it has no order or no facets.
        TypeError: if `after` is a place in an order of other values.
    """
    start = time.perf_counter()
    fields = searcher.field_index()
    if query.strip():
        matching = searcher.matching(
            query, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )
        found = matching.scores > 0
    else:
        matching = Matching(np.zeros(fields.images), [], [], [])
        found = fields.live() if allowed is None else allowed
    counted = {facet: count_values(fields, facet, found) for facet in facets}
    ordered = Order(fields, order, matching.scores, searcher.image_id)
    page = _page(ordered, found, offset, k, after)
    rank = after.rank if after is not None else offset
    hits = searcher.hits(((one, float(matching.scores[one])) for one in page), rank + 1)
    milliseconds = 1000 * (time.perf_counter() - start)
    result = SearchResult(
        hits,
        matching.unknown,
        Timings(0.0, milliseconds, milliseconds),
        substitutions=matching.substitutions,
        conditions=matching.conditions,
    )
    last = None
    if hits:
        last = Position(ordered.value(page[-1]), hits[-1].image_id, hits[-1].rank)
    return Browsed(result, int(found.sum()), counted, last)


def _page(
    order: Order, found: NDArray[np.bool_], offset: int, k: int, after: Position | None
) -> list[int]:
    """The first documents in an order, or those after a place in it."""
    if after is None:
        return order.first(found, offset + k)[offset:]
    wanted = after.rank + k
    while True:
        first = order.first(found, wanted)
        later = [
            document
            for document in first
            if after.before(order.value(document), order.image_id(document), order.falling)
        ]
        if len(later) >= k or len(first) < wanted:
            return later[:k]
        wanted *= 2
