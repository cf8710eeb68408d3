"""Everything that a text finds: how many images, their facets, and pages in another order."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from indexer.filters.facets import Bucket, count_values
from indexer.filters.field_index import FieldIndex
from indexer.filters.sorting import first_by
from indexer.search.api import Allowed, Hit, Matching, SearchResult, Timings


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
    """

    result: SearchResult
    total: int
    facets: dict[str, list[Bucket]]


def browse(
    searcher: Browsable,
    query: str,
    k: int,
    *,
    offset: int = 0,
    order: str | None = None,
    facets: Sequence[str] = (),
    substitute: bool = True,
    allowed: Allowed | None = None,
    min_coverage: float | None = None,
) -> Browsed:
    """Count, order and page all images that match a text; costs more than the best few alone.

    Args:
        searcher: of the images.
        query: any text.
        k: hits at most.
        offset: hits before the first one.
        order: a field to sort by, with a minus for the largest first; None for the score.
        facets: see `count_values`.
        substitute: see `Searcher.search`.
        allowed: documents that may be found; None for all.
        min_coverage: see `Searcher.search`; the hits do not have theirs.

    Raises:
        FilterError: if there is no such field, or it has no order or no facets.
    """
    start = time.perf_counter()
    matching = searcher.matching(
        query, substitute=substitute, allowed=allowed, min_coverage=min_coverage
    )
    fields = searcher.field_index()
    scores = dict(matching.documents)
    found = np.zeros(fields.images, np.bool_)
    found[list(scores)] = True
    counted = {facet: count_values(fields, facet, found) for facet in facets}
    documents = list(scores)
    if order is not None:
        documents = first_by(fields, order, found, offset + k, searcher.image_id).tolist()
    page = [(document, scores[document]) for document in documents[offset : offset + k]]
    hits = searcher.hits(page, offset + 1)
    milliseconds = 1000 * (time.perf_counter() - start)
    timings = Timings(0.0, milliseconds, milliseconds)
    substitutions = matching.substitutions
    result = SearchResult(
        hits,
        matching.unknown,
        timings,
        substitutions=substitutions,
        conditions=matching.conditions,
    )
    return Browsed(result, len(scores), counted)
