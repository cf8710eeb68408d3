"""Filters, facets and orders of a request, applied to the fields of a backend's images."""

from __future__ import annotations

from typing import Any

from indexer.filters.expression import FilterError
from indexer.filters.json_form import read_filter
from indexer.filters.text import parse_filter
from indexer.search.api import Fields, Filterable, Selection
from indexer.search.browsing import Browsable, Browsed, Page
from indexer.search.paging import Position
from server.backends import Backend
from server.problems import ProblemError
from server.routes.parameters import SearchBody, SearchParameters

FilterValue = str | dict[str, Any]


def allowed_by(backend: Backend, given: FilterValue | None) -> Selection | None:
    """The images that a filter lets through, None without one.

    Raises:
        ProblemError: if the filter cannot be read or does not fit the fields.
    """
    if given is None:
        return None
    fields = fields_of(backend)
    try:
        whole = parse_filter(given) if isinstance(given, str) else read_filter(given)
        return fields.allowed(whole)
    except FilterError as error:
        raise ProblemError("invalid-parameter", str(error), "filter") from error


def browsed_by(
    backend: Backend,
    asked: SearchParameters | SearchBody,
    allowed: Selection | None,
    after: Position | None,
) -> Browsed:
    """All that a search finds, counted and ordered.

    Raises:
        ProblemError: if the backend is not the inverted index, or the fields do not allow it.
    """
    name = "sort" if asked.sort else "facets" if asked.counted else "q"
    searcher = backend.searcher
    if not isinstance(searcher, Browsable):
        detail = f"{name}: backend {backend.name} lists the best photos alone; search sparta"
        raise ProblemError("invalid-parameter", detail, name)
    try:
        return searcher.browse(
            asked.q,
            Page(asked.k, asked.offset, asked.sort, asked.counted, after),
            substitute=asked.substitute,
            allowed=allowed,
            min_coverage=asked.min_coverage,
        )
    except FilterError as error:
        raise ProblemError("invalid-parameter", error.reason, name) from error
    except TypeError as error:
        detail = "cursor: it is of another order; leave it out to begin anew"
        raise ProblemError("invalid-parameter", detail, "cursor") from error


def fields_of(backend: Backend) -> Fields:
    """The fields of a backend's images.

    Raises:
        ProblemError: if it has none.
    """
    if not isinstance(backend.searcher, Filterable):
        detail = f"filter: the images of backend {backend.name} have no fields"
        raise ProblemError("invalid-parameter", detail, "filter")
    return backend.searcher.field_index()
