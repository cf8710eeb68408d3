"""Everything that a text finds: how many images, their facets, and pages in another order."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from indexer.filters.facets import Bucket, count_values
from indexer.filters.field_index import FieldIndex
from indexer.filters.sorting import first_by, sorted_by
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
        found = np.zeros(fields.images, np.bool_)
        found[[document for document, _ in matching.documents]] = True
    else:
        matching = Matching([], [], [], [])
        found = fields.live() if allowed is None else allowed
    scores = dict(matching.documents)
    counted = {facet: count_values(fields, facet, found) for facet in facets}
    if order is None and scores:
        documents = _ranked_after(searcher, matching.documents, after)
    else:
        documents = _ordered_after(searcher, fields, order, found, offset + k, after)
    rank = after.rank if after is not None else offset
    page = [(one, scores.get(one, 0.0)) for one in documents[0 if after else offset :][:k]]
    hits = searcher.hits(page, rank + 1)
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
        value = hits[-1].score if order is None else sorted_by(fields, order, page[-1][0])
        last = Position(value, hits[-1].image_id, hits[-1].rank)
    return Browsed(result, int(found.sum()), counted, last)


def _ranked_after(
    searcher: Browsable, ranking: list[tuple[int, float]], after: Position | None
) -> list[int]:
    """The documents of a ranking after a place in it."""
    if after is None:
        return [document for document, _ in ranking]
    lower = bisect_left(ranking, -float(after.value or 0), key=lambda pair: -pair[1])
    tied = [one for one, score in ranking[lower:] if score == after.value]
    later = [one for one in tied if searcher.image_id(one) > after.image_id]
    return later + [one for one, _ in ranking[lower + len(tied) :]]


def _ordered_after(
    searcher: Browsable,
    fields: FieldIndex,
    order: str | None,
    found: NDArray[np.bool_],
    count: int,
    after: Position | None,
) -> list[int]:
    """The first documents in an order, or those after a place in it."""
    first: list[int]
    if after is None:
        first = first_by(fields, order, found, count, searcher.image_id).tolist()
        return first
    falling = order is not None and order.startswith("-")
    wanted = after.rank + count
    while True:
        first = first_by(fields, order, found, wanted, searcher.image_id).tolist()
        later = [
            document
            for document in first
            if after.before(
                0.0 if order is None else sorted_by(fields, order, document),
                searcher.image_id(document),
                falling,
            )
        ]
        if len(later) >= count or len(first) < wanted:
            return later
        wanted *= 2
