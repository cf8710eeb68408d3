"""Search by text."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from indexer.filters.facets import Bucket
from indexer.search.api import Explainer, Searcher
from indexer.search.words import Suggester
from server import schemas
from server.backends import Backend, backends_of
from server.problems import PROBLEM, ProblemError, responses
from server.routes.filtering import allowed_by, browsed_by
from server.routes.hits import (
    conditions_of,
    hits_and_timings,
    json_response,
    substitutions_of,
)
from server.routes.parameters import (
    SearchBody,
    SearchParameters,
    documented,
    read_search,
)
from server.work import Wanted, Work

QUICK_HITS = 100  # with more, or a longer query, a quick search is none
QUICK_LENGTH = 200
MAX_CORRECTED = 10  # unknown words

router = APIRouter(prefix="/v1")


@router.get(
    "/search",
    summary="Search photos by text",
    response_model=schemas.SearchAnswer,
    responses=responses(
        "invalid-parameter",
        "unknown-backend",
        "backend-unavailable",
        "overloaded",
    ),
    openapi_extra=documented(SearchParameters),
)
async def search(request: Request) -> Response:
    """The photos that match the query best.

    Words that the backend does not know are listed in `unknown`, unless a substitute was searched
    in their place: then `substitutions` has the word, its substitute and their similarity.
    `+beach` finds only photos that have the word, `-dog` only those that do not; `beach^3` counts
    three times. The inverted index (`sparta`) finds photos that share a term with the query, so a
    query of unknown words only has no hits; it can explain every score. A dense model compares the
    text as a whole with the photos, has no such operators, always finds the nearest ones and
    explains nothing; it is loaded at its first query, which takes seconds.
    """
    asked = read_search(request)
    backend = backends_of(request).get(asked.backend)
    answer = partial(search_answer, request, backend, asked)
    # A quick search takes less time than switching to a thread; others would block the event loop.
    if backend.quick and asked.min_coverage is None and _quick(asked):
        return json_response(answer())
    work: Work = request.app.state.work
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


@router.post(
    "/search",
    summary="Search photos by text, with a filter as JSON",
    operation_id="search_by_body",
    response_model=schemas.SearchAnswer,
    responses={
        400: {"description": "The body is not UTF-8", "content": PROBLEM},
        **responses("invalid-parameter", "unknown-backend", "backend-unavailable", "overloaded"),
    },
)
async def search_by_body(request: Request, asked: SearchBody) -> Response:
    """As `GET /v1/search`; the filter may be JSON with `must`, `should` and `must_not`."""
    backend = backends_of(request).get(asked.backend)
    work: Work = request.app.state.work
    answer = partial(search_answer, request, backend, asked)
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


def _quick(asked: SearchParameters) -> bool:
    few = asked.k + asked.offset <= QUICK_HITS and len(asked.q) <= QUICK_LENGTH
    return few and not (asked.explain or asked.filter or asked.facets or asked.sort)


def search_answer(
    request: Request,
    backend: Backend,
    asked: SearchParameters | SearchBody,
    wanted: Wanted | None = None,
) -> schemas.SearchAnswer:
    """Search one backend and convert the result to the answer of `/v1/search`.

    Raises:
        ProblemError: if a least coverage is given for a backend that has none.
    """
    searcher = backend.searcher
    if asked.min_coverage is not None and not isinstance(searcher, Explainer):
        detail = f"min_coverage: {backend.name!r} has no coverage; leave it out"
        raise ProblemError("invalid-parameter", detail, "min_coverage")
    allowed = allowed_by(backend, asked.filter)
    total: int | None = None
    facets: dict[str, list[Bucket]] = {}
    if asked.sort or asked.counted:
        browsed = browsed_by(backend, asked, allowed)
        result, total, facets = browsed.result, browsed.total, browsed.facets
    else:
        result = searcher.search(
            asked.q,
            asked.k + asked.offset,
            substitute=asked.substitute,
            allowed=allowed,
            min_coverage=asked.min_coverage,
        )
        result.hits = result.hits[asked.offset :]
    why = None
    if asked.explain and isinstance(searcher, Explainer):
        why = partial(searcher.explain_all, asked.q, substitute=asked.substitute)
    hits, timings = hits_and_timings(request, backend, result, why, wanted)
    return schemas.SearchAnswer(
        query=asked.q,
        backend=backend.name,
        index_version=backends_of(request).version,
        hits=hits,
        unknown=result.unknown,
        corrections=_corrections(searcher, result.unknown),
        substitutions=substitutions_of(result),
        conditions=conditions_of(result),
        timings=timings,
        total=total,
        facets={name: _buckets(found) for name, found in facets.items()} or None,
    )


def _buckets(found: list[Bucket]) -> list[schemas.BucketAnswer]:
    return [schemas.BucketAnswer(value=value, count=images) for value, images in found]


def _corrections(searcher: Searcher, unknown: list[str]) -> list[schemas.CorrectionAnswer]:
    if not unknown or not isinstance(searcher, Suggester):
        return []
    nearest = {word: searcher.correct(word) for word in unknown[:MAX_CORRECTED]}
    return [
        schemas.CorrectionAnswer(word=word, words=[held.word for held in found])
        for word, found in nearest.items()
        if found
    ]
