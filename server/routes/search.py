"""Search by text."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Request, Response

from indexer.filters.facets import Bucket
from indexer.search.api import (
    Divided,
    Explainer,
    PartialSearcher,
    Searcher,
    SearchResult,
    Selection,
    UnknownImageError,
)
from indexer.search.paging import Position, page_after
from indexer.search.words import Suggester
from server import schemas
from server.backends import Backend, backends_of
from server.json_bodies import JsonRoute
from server.problems import PROBLEM, ProblemError, responses
from server.routes import cursor
from server.routes.cursor import search_key
from server.routes.filtering import allowed_by, browsed_by
from server.routes.hits import Json, hits_and_timings, json_response, json_text
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
MAX_CORRECTED = 10  # unknown words

ATTEMPTS = 5  # at a search whose hits are deleted while they are explained

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
    """As `_searched`, searched again if a shard lost a hit before that was explained."""
    for _ in range(ATTEMPTS - 1):
        with suppress(UnknownImageError):
            return _searched(request, backend, asked, wanted)
    return _searched(request, backend, asked, wanted)


def _searched(
    request: Request,
    backend: Backend,
    asked: SearchParameters | SearchBody,
    wanted: Wanted | None = None,
) -> Json:
    """Search one backend and convert the result to a `SearchAnswer`.

    Raises:
        ProblemError: if nothing is searched for, a least coverage is given for a backend that has
            none, or the cursor is of another search.
    """
    words = bool(asked.q.strip())
    if not (words or asked.filter or asked.sort or asked.counted):
        detail = "q: the query is empty; give at least one word, or a filter, an order or facets"
        raise ProblemError("invalid-parameter", detail, "q")
    if asked.partial and isinstance(backend.searcher, Divided):
        backend = replace(backend, searcher=backend.searcher.partial())
    searcher = backend.searcher
    if asked.min_coverage is not None and not isinstance(searcher, Explainer):
        detail = f"min_coverage: {backend.name!r} has no coverage; leave it out"
        raise ProblemError("invalid-parameter", detail, "min_coverage")
    version = backends_of(request).version
    key = search_key(asked, backend.name, version)
    after = _position(asked, key)
    allowed = allowed_by(backend, asked.filter)
    total: int | None = None
    facets: dict[str, list[Bucket]] = {}
    if asked.sort or asked.counted or not words:
        browsed = browsed_by(backend, asked, allowed, after)
        result, total, facets, last = (
            browsed.result,
            browsed.total,
            browsed.facets,
            browsed.last,
        )
    else:
        result = _best(searcher, asked, allowed, after)
        last = _last(result)
    why = None
    if asked.explain and words and isinstance(searcher, Explainer):
        why = partial(searcher.explain_all, asked.q, substitute=asked.substitute)
    hits, timings = hits_and_timings(request, backend, result, why, wanted)
    missing: list[str] = []
    if asked.partial and isinstance(searcher, PartialSearcher):
        missing = searcher.missing_shards
    return {
        "query": asked.q,
        "backend": backend.name,
        "index_version": version,
        "hits": hits,
        "unknown": result.unknown,
        "rare": result.rare,
        "corrections": _corrections(searcher, result.unknown),
        "substitutions": result.substitutions,
        "conditions": result.conditions,
        "timings": timings,
        "missing_images": backend.missing,
        "cursor": cursor.written(last, len(hits), asked.k, key),
        "total": total,
        "facets": {name: _buckets(found) for name, found in facets.items()} or None,
        "partial": bool(missing),
        "missing_shards": missing,
    }


def _position(asked: SearchParameters | SearchBody, key: str) -> Position | None:
    if asked.cursor is None:
        return None
    if asked.offset:
        detail = "cursor: give either a cursor or an offset"
        raise ProblemError("invalid-parameter", detail, "cursor")
    return cursor.read(asked.cursor, key, ranked=not asked.sort)


def _best(
    searcher: Searcher,
    asked: SearchParameters | SearchBody,
    allowed: Selection | None,
    after: Position | None,
) -> SearchResult:
    """The page of the ranking."""
    search = partial(
        searcher.search,
        asked.q,
        substitute=asked.substitute,
        allowed=allowed,
        min_coverage=asked.min_coverage,
    )
    if after is not None:
        return page_after(search, asked.k, after)
    result = search(asked.k + asked.offset)
    result.hits = result.hits[asked.offset :]
    return result


def _last(result: SearchResult) -> Position | None:
    if not result.hits:
        return None
    hit = result.hits[-1]
    return Position(hit.score, hit.image_id, hit.rank)


def _buckets(found: list[Bucket]) -> list[Json]:
    return [{"value": value, "count": images} for value, images in found]


def _corrections(searcher: Searcher, unknown: list[str]) -> list[Json]:
    """The words of the index nearest to unknown ones, those that have any."""
    if not unknown or not isinstance(searcher, Suggester):
        return []
    nearest = {word: searcher.correct(word) for word in unknown[:MAX_CORRECTED]}
    return [
        {"word": word, "words": [held.word for held in found]}
        for word, found in nearest.items()
        if found
    ]
