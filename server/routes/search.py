"""Search by text."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from indexer.search.api import Explainer
from server import schemas
from server.backends import Backend, backends_of
from server.problems import responses
from server.routes.hits import hits_and_timings, json_response
from server.routes.parameters import (
    BackendParameter,
    CountParameter,
    ExplainParameter,
    QueryParameter,
    SubstituteParameter,
)
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
)
async def search(
    request: Request,
    backend: BackendParameter,
    q: QueryParameter,
    k: CountParameter = 10,
    explain: ExplainParameter = False,
    substitute: SubstituteParameter = True,
) -> schemas.SearchAnswer | Response:
    """The photos that match the query best.

    Words that the backend does not know are listed in `unknown`, unless a substitute was searched
    in their place: then `substitutions` has the word, its substitute and their similarity. The
    inverted index (`sparta`) finds photos that share a term with the query, so a query of unknown
    words only has no hits; it can explain every score. A dense model compares the text as a whole
    with the photos, always finds the nearest ones and explains nothing; it is loaded at its first
    query, which takes seconds.
    """
    answer = partial(search_answer, request, backend, q, k, explain, substitute)
    # A quick search takes less time than switching to a thread; others would block the event loop.
    if backend.quick and not explain and k <= QUICK_HITS and len(q) <= QUICK_LENGTH:
        return answer()
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
