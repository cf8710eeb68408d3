"""Search by text: parameters or a body, the answer, and cursors for the hits after it.

A cursor is a place in the ranking of a search, as a text that clients send back.
"""

from __future__ import annotations

import base64
import json
from functools import partial
from hashlib import blake2b
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    Discriminator,
    FailFast,
    Tag,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import to_json

from indexer.answer import Position
from indexer.search.searcher import DEEPEST, MAX_FACETS
from server import schemas
from server.backends import Backend, backends_of
from server.problems import PROBLEM, ProblemError, responses
from server.requests import KNOWN_PARAMETERS, JsonRoute, Named
from server.routes import common
from sparta.json_values import Json, JsonValue

MAX_FACET = 100  # characters of one
MAX_QUERIES = 32  # of a body
MAX_CURSOR_LENGTH = 10_000
QUICK_HITS = 100  # with more, or a longer query, a search may block the event loop for long
QUICK_LENGTH = 200
ONE, SEVERAL = "search", "searches"  # kinds of bodies
_json = json.JSONEncoder(sort_keys=True).encode  # json.dumps would make one every time

router = APIRouter(prefix="/v1", route_class=JsonRoute)


FACETS = "Fields of which to count the values over all matching photos"
HOW = "; dates with a period; not for dense models"
_NAME = f"[^,]{{0,{MAX_FACET}}}"
Facets = Annotated[
    list[Annotated[str, Query(max_length=MAX_FACET)]], FailFast(), Query(max_length=MAX_FACETS)
]


class Search(Named, BaseModel):
    """What a search is asked, however it is sent."""

    q: Annotated[
        str,
        Query(
            max_length=common.MAX_QUERY_LENGTH,
            description=f"{common.QUERY} Without words, all photos that the filter lets through "
            "are found, in the order of `sort`, else of their ids",
            examples=["two dogs on a beach"],
            json_schema_extra={"minLength": 1, "pattern": common.NOT_BLANK},
        ),
    ] = ""
    backend: common.BackendName = None
    k: common.CountParameter = 10
    explain: common.ExplainParameter = False
    substitute: common.SubstituteParameter = True
    min_coverage: Annotated[
        float | None,
        Query(
            ge=0,
            le=1,
            description="Smallest coverage of a hit, for backends that explain: the share of the "
            "query's weight that belongs to words which the photo has",
        ),
    ] = None
    offset: Annotated[
        int, Query(ge=0, le=common.MAX_K, description="Hits before the first one")
    ] = 0
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR_LENGTH,
            description="`cursor` of an answer to the same search: the hits after those of the "
            "answer, whatever was written to the index meanwhile",
        ),
    ] = None
    sort: Annotated[
        str | None,
        Query(
            max_length=100,
            description="A field to sort all matching photos by, with - before it for the largest "
            "first; by default the score; not for dense models",
            examples=["-taken"],
        ),
    ] = None
    rerank: Annotated[
        int,
        Query(
            ge=0,
            le=common.MAX_K,
            description="How many of the first hits to order by a dual encoder's similarity of "
            "text and photo, for an index that was built with --rerank; 0 for none",
        ),
    ] = 0
    partial: Annotated[
        bool,
        Query(
            description="Of an index in shards: without the photos of shards that do not answer, "
            "which are named, in place of an error"
        ),
    ] = False


def _separated(facets: JsonValue) -> JsonValue:
    return facets.split(",") if isinstance(facets, str) and facets else []


class SearchParameters(Search):
    """The query parameters of a search; `read_search` reads them."""

    filter: common.FilterParameter = None
    facets: Annotated[
        Facets,
        BeforeValidator(_separated),
        WithJsonSchema({"type": "string", "pattern": f"^{_NAME}(,{_NAME}){{0,{MAX_FACETS - 1}}}$"}),
        Query(
            default_factory=list,
            description=f"{FACETS}, separated by commas{HOW}",
            examples=["camera,taken:year"],
        ),
    ]


class SearchBody(Search):
    """A search as the body of a request."""

    filter: Annotated[str | Json | None, Query(description=common.FILTER)] = None
    facets: Annotated[
        Facets, Query(description=FACETS + HOW, examples=[["camera", "taken:year"]])
    ] = []


class Searches(Named, BaseModel):
    """Several searches as the body of a request."""

    queries: Annotated[
        list[SearchBody],
        FailFast(),
        Query(min_length=1, max_length=MAX_QUERIES, description="Answered one by one, in order"),
    ]


def _kind_of_body(body: JsonValue) -> str:
    several = isinstance(body, Searches) or (isinstance(body, dict) and "queries" in body)
    return SEVERAL if several else ONE


OneOrSeveral = Annotated[
    Annotated[SearchBody, Tag(ONE)] | Annotated[Searches, Tag(SEVERAL)],
    Discriminator(_kind_of_body),
]


def read_search(query_string: bytes) -> SearchParameters:
    """The parameters of a search, a repeated one as it comes last.

    FastAPI would take five times as long for them as pydantic: a tenth of a search's time.

    Raises:
        RequestValidationError: if one is missing or wrong.
    """
    try:
        return SearchParameters.model_validate(dict(pairs_of(query_string)))
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("query", *one["loc"])} for one in error.errors()]
        ) from error


def pairs_of(query_string: bytes) -> list[tuple[str, str]]:
    """Names and values: `urllib.parse.parse_qsl` with blank values, in a third of its time."""
    fields = query_string.decode("latin-1").replace("+", " ").split("&")
    found = [field.partition("=") for field in fields if field]
    return [(unquote(name), unquote(value)) for name, _, value in found]


def documented(model: type[BaseModel]) -> Json:
    """OpenAPI documentation of query parameters that a route reads by itself: `openapi_extra`."""
    schema = model.model_json_schema()
    listed = [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", []),
            "schema": values,
        }
        for name, values in schema["properties"].items()
    ]
    return {"parameters": [one | {"description": one["schema"]["description"]} for one in listed]}


@router.get(
    "/search",
    summary="Search photos by text",
    response_model=schemas.SearchAnswer,
    responses=responses(
        "invalid-parameter", "unknown-backend", "backend-unavailable", "overloaded"
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
        return common.json_text(answer())
    return await common.in_thread(request, lambda wanted: common.json_response(answer(wanted)))


@router.post(
    "/search",
    dependencies=[KNOWN_PARAMETERS],
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
    answer = partial(_answers, request, asked)
    return await common.in_thread(request, lambda wanted: common.json_response(answer(wanted)))


def _answers(request: Request, asked: SearchBody | Searches, wanted: common.Wanted) -> Json:
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
    plain = not (asked.explain or asked.facets or asked.sort or asked.rerank or asked.partial)
    whole = asked.filter is None and asked.cursor is None and asked.min_coverage is None
    return few and plain and whole and bool(asked.q.strip())


def search_answer(
    request: Request,
    backend: Backend,
    asked: SearchParameters | SearchBody,
    wanted: common.Wanted | None = None,
) -> Json:
    """Search one backend and convert the answer to a `SearchAnswer`.

    Raises:
        ProblemError: if nothing is searched for, or the cursor is of another search.
    """
    if not (asked.q.strip() or asked.filter or asked.sort or asked.facets):
        detail = "q: the query is empty; give at least one word, or a filter, an order or facets"
        raise ProblemError("invalid-parameter", detail, "q")
    backends = backends_of(request)
    key = _search_key(asked, backend.name, backends.version)
    answer = backend.searcher.search(
        asked.q,
        asked.k,
        substitute=asked.substitute,
        filter=common.read(asked.filter),
        min_coverage=asked.min_coverage,
        sort=asked.sort,
        facets=asked.facets,
        offset=asked.offset,
        after=_position(asked, key),
        explain=common.explained(wanted) if asked.explain else None,
        rerank=asked.rerank,
        partial=asked.partial,
    )
    return common.answer_json(
        request,
        backend,
        answer,
        query=asked.q,
        index_version=backends.version_of(answer.version),
        cursor=_written(answer.last, len(answer.hits), asked.k, key),
        partial=bool(answer.missing_shards),
    )


def _search_key(asked: SearchParameters | SearchBody, backend: str, version: str) -> str:
    """What two searches share if a cursor of one continues the other: hits and their order.

    Commits of one index share what is before the dot of `version`.
    """
    filtered = _json(asked.filter) if isinstance(asked.filter, dict) else asked.filter
    chosen = filtered, asked.sort, asked.substitute, asked.min_coverage, asked.rerank
    parts = to_json((version.partition(".")[0], backend, asked.q, *chosen))
    # OpenSSL's hashes take several times as long for so little: they fetch much before they begin.
    return blake2b(parts, digest_size=6).hexdigest()


def _written(position: Position | None, hits: int, k: int, key: str) -> str | None:
    """The cursor of an answer, None if no hits follow."""
    if position is None or hits < k or position.rank >= DEEPEST:
        return None
    content = [key, position.value, position.image_id, position.rank]
    return base64.urlsafe_b64encode(to_json(content)).decode().rstrip("=")


def _position(asked: SearchParameters | SearchBody, key: str) -> Position | None:
    """The place that the cursor of a search names, None without one.

    Raises:
        ProblemError: if it is none, or of another search.
    """
    if asked.cursor is None:
        return None
    if asked.offset:
        raise _bad_cursor("give either a cursor or an offset")
    try:
        text = base64.urlsafe_b64decode(asked.cursor + "=" * (-len(asked.cursor) % 4))
        own, value, image_id, rank = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise _bad_cursor("this is none; give the one of an answer unchanged") from error
    kinds = (int, float, str, type(None)) if asked.sort else (int, float)
    kinds = (*kinds, type(None)) if asked.rerank else kinds
    typed = type(value) in kinds and isinstance(image_id, str)
    if not typed or type(rank) is not int or not 0 < rank <= DEEPEST:
        raise _bad_cursor("this is none; give the one of an answer unchanged")
    if own != key:
        raise _bad_cursor("it is of another search or another index; leave it out to begin anew")
    return Position(value, image_id, rank)


def _bad_cursor(reason: str) -> ProblemError:
    return ProblemError("invalid-parameter", f"cursor: {reason}", "cursor")
