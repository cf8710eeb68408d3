"""What a server can search: its backends, and the fields, words and numbers of their images."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from indexer.search.engine import Capability
from server import schemas
from server.backends import backends_of
from server.json_bodies import JsonRoute
from server.problems import PROBLEM, responses
from server.routes.answers import json_response, read
from server.routes.parameters import MAX_QUERY_LENGTH, BackendParameter, CountBody
from server.work import Work

MOST = 50  # suggestions

router = APIRouter(prefix="/v1", route_class=JsonRoute)


@router.get("/backends", summary="List the backends")
def list_backends(request: Request) -> schemas.BackendList:
    """Every backend with its number of images and example queries, the default backend first.

    Of an index that is written to, a dense model may lack vectors of some images, which it does not
    find then.
    """
    backends = backends_of(request)
    return schemas.BackendList(
        backends=[
            schemas.BackendInfo(
                name=backend.name,
                default=backend is backends.default,
                images=len(backend.searcher),
                missing_images=backend.searcher.missing_images,
                photos=backend.has_photos,
                explains=Capability.EXPLAIN in backend.searcher.can,
                examples=list(backend.examples),
            )
            for backend in backends
        ],
    )


@router.get(
    "/fields",
    summary="List the fields of the photos",
    response_model=schemas.FieldsAnswer,
    responses=responses("unknown-backend", "overloaded"),
)
async def list_fields(request: Request, backend: BackendParameter) -> Response:
    """The fields of the photos' metadata that filters may name, with their kinds."""
    work: Work = request.app.state.work
    version = backends_of(request).version

    def answer() -> schemas.FieldsAnswer:
        kinds = {name: str(kind) for name, kind in backend.searcher.kinds().items()}
        return schemas.FieldsAnswer(backend=backend.name, index_version=version, fields=kinds)

    return await work.run(request, lambda _: json_response(answer()))


@router.get(
    "/suggest",
    summary="Complete a query",
    response_model=schemas.SuggestAnswer,
    responses=responses("invalid-parameter", "overloaded"),
)
async def suggest(
    request: Request,
    q: Annotated[
        str, Query(max_length=MAX_QUERY_LENGTH, description="A query as far as it is typed")
    ],
    k: Annotated[int, Query(ge=1, le=MOST, description="Largest number of suggestions")] = 10,
) -> Response:
    """Queries whose last word is completed to words that the index holds.

    Those in the most photos come first. If no word begins like the last one, the words nearest to
    it are suggested. There are none after a space.
    """
    work: Work = request.app.state.work
    backends = backends_of(request)

    def answer() -> schemas.SuggestAnswer:
        found = backends.default.searcher.complete(q, k)
        suggestions = [schemas.SuggestionAnswer(**one._asdict()) for one in found]
        version = backends.version
        return schemas.SuggestAnswer(query=q, index_version=version, suggestions=suggestions)

    return await work.run(request, lambda _: json_response(answer()))


@router.post(
    "/images/count",
    summary="Count the images that a filter lets through",
    operation_id="count_images",
    response_model=schemas.CountAnswer,
    responses={
        400: {"description": "The body is not JSON", "content": PROBLEM},
        **responses("invalid-parameter", "unknown-backend", "overloaded"),
    },
)
async def count_images(request: Request, asked: CountBody) -> Response:
    """The number of images that a filter lets through; without a filter, of all."""
    backends = backends_of(request)
    backend = backends.get(asked.backend)
    work: Work = request.app.state.work

    def answer() -> schemas.CountAnswer:
        count = backend.searcher.count(read(asked.filter))
        version = backends.version
        return schemas.CountAnswer(backend=backend.name, index_version=version, count=count)

    return await work.run(request, lambda _: json_response(answer()))
