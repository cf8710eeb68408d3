"""Search by text."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from server import schemas
from server.backends import Backend, backends_of
from server.json_bodies import JsonRoute
from server.problems import PROBLEM, ProblemError, responses
from server.routes import cursor
from server.routes.answers import Json, answer_json, explained, json_response, json_text, read
from server.routes.parameters import (
    OneOrSeveral,
    SearchBody,
    Searches,
    SearchParameters,
    documented,
    read_search,
)
from server.work import Wanted, Work

QUICK_HITS = 100  # with more, or a longer query, a search may block the event loop for long
QUICK_LENGTH = 200

router = APIRouter(prefix="/v1", route_class=JsonRoute)


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
    in their place: then `substitutions` has the word, its substitute and their similarity. `rare`
    lists words that the model rarely saw in training: hits for them may be wrong.
    `+beach` finds only photos that have the word, `-dog` only those that do not; `beach^3` counts
    three times. The inverted index (`sparta`) finds photos that share a term with the query, so a
    query of unknown words only has no hits; it can explain every score. A dense model compares the
    text as a whole with the photos, has no such operators, always finds the nearest ones and
    explains nothing; it is loaded at its first query, which takes seconds.
    """
    answer = await searched(request)
    if isinstance(answer, Response):
        return answer
    return Response(answer, media_type="application/json")


async def searched(request: Request) -> bytes | Response:
    """The JSON of the answer to a search by GET; a response if a thread made it."""
    asked = read_search(request.scope["query_string"])
    backend = backends_of(request).get(asked.backend)
    answer = partial(search_answer, request, backend, asked)
    # A quick search takes less time than switching to a thread; others would block the event loop.
    if backend.quick and _is_quick(asked):
        return json_text(answer())
    work: Work = request.app.state.work
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


@router.post(
    "/search",
    summary="Search photos by text, with a filter as JSON; or several searches at once",
    operation_id="search_by_body",
    response_model=schemas.SearchAnswer | schemas.SearchAnswers,
    responses={
        400: {"description": "The body is not JSON", "content": PROBLEM},
        **responses("invalid-parameter", "unknown-backend", "backend-unavailable", "overloaded"),
    },
)
async def search_by_body(request: Request, asked: OneOrSeveral) -> Response:
    """As `GET /v1/search`; the filter may be JSON with `must`, `should` and `must_not`.

    `{"queries": [...]}` has up to 32 such searches; `answers` has one for each, in this order, all
    of the same state of the index. If one of them cannot be answered none is.
    """
    work: Work = request.app.state.work
    answer = partial(_answers, request, asked)
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


def _answers(request: Request, asked: SearchBody | Searches, wanted: Wanted) -> Json:
    backends = backends_of(request)
    if isinstance(asked, SearchBody):
        return search_answer(request, backends.get(asked.backend), asked, wanted)
    answers = []
    for one in asked.queries:
        wanted.check()
        answers.append(search_answer(request, backends.get(one.backend), one, wanted))
    return {"answers": answers}


def _is_quick(asked: SearchParameters) -> bool:
    """Whether a search takes little time if the backend is quick: for few hits of a few words."""
    few = asked.k + asked.offset <= QUICK_HITS and len(asked.q) <= QUICK_LENGTH
    plain = not (asked.explain or asked.facets or asked.sort or asked.partial)
    whole = asked.filter is None and asked.cursor is None and asked.min_coverage is None
    return few and plain and whole and bool(asked.q.strip())


def search_answer(
    request: Request,
    backend: Backend,
    asked: SearchParameters | SearchBody,
    wanted: Wanted | None = None,
) -> Json:
    """Search one backend and convert the answer to a `SearchAnswer`.

    Raises:
        ProblemError: if nothing is searched for, or the cursor is of another search.
    """
    if not (asked.q.strip() or asked.filter or asked.sort or asked.counted):
        detail = "q: the query is empty; give at least one word, or a filter, an order or facets"
        raise ProblemError("invalid-parameter", detail, "q")
    backends = backends_of(request)
    key = cursor.search_key(asked, backend.name, backends.version)
    answer = backend.searcher.search(
        asked.q,
        asked.k,
        substitute=asked.substitute,
        filter=read(asked.filter),
        min_coverage=asked.min_coverage,
        sort=asked.sort,
        facets=asked.counted,
        offset=asked.offset,
        after=cursor.read(asked, key),
        explain=explained(wanted) if asked.explain else None,
        partial=asked.partial,
    )
    return answer_json(
        request,
        backend,
        answer,
        query=asked.q,
        index_version=backends.version_of(answer.version),
        cursor=cursor.written(answer.last, len(answer.hits), asked.k, key),
        partial=bool(answer.missing_shards),
    )
