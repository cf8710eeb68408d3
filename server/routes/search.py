"""Search by text."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from indexer.search.api import Explainer
from server import schemas
from server.backends import Backend, backends_of
from server.problems import responses
from server.routes.hits import hits_and_timings, json_response
from server.routes.parameters import SearchParameters, documented, read_search
from server.work import Wanted, Work

QUICK_HITS = 100  # with more, or a longer query, a quick search is none
QUICK_LENGTH = 200

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
    in their place: then `substitutions` has the word, its substitute and their similarity. The
    inverted index (`sparta`) finds photos that share a term with the query, so a query of unknown
    words only has no hits; it can explain every score. A dense model compares the text as a whole
    with the photos, always finds the nearest ones and explains nothing; it is loaded at its first
    query, which takes seconds.
    """
    asked = read_search(request)
    backend = backends_of(request).get(asked.backend)
    answer = partial(
        search_answer, request, backend, asked.q, asked.k, asked.explain, asked.substitute
    )
    # A quick search takes less time than switching to a thread; others would block the event loop.
    quick = asked.k <= QUICK_HITS and len(asked.q) <= QUICK_LENGTH and not asked.explain
    if backend.quick and quick:
        return json_response(answer())
    work: Work = request.app.state.work
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


def search_answer(
    request: Request,
    backend: Backend,
    q: str,
    k: int,
    explain: bool,
    substitute: bool = True,
    wanted: Wanted | None = None,
) -> schemas.SearchAnswer:
    """Search one backend and convert the result to the answer of `/v1/search`."""
    searcher = backend.searcher
    result = searcher.search(q, k, substitute=substitute)
    why = None
    if explain and isinstance(searcher, Explainer):
        why = partial(searcher.explain_all, q, substitute=substitute)
    hits, timings = hits_and_timings(request, backend, result, why, wanted)
    return schemas.SearchAnswer(
        query=q,
        backend=backend.name,
        index_version=backends_of(request).version,
        hits=hits,
        unknown=result.unknown,
        substitutions=[
            schemas.SubstitutionAnswer.model_validate(found) for found in result.substitutions
        ],
        timings=timings,
    )
