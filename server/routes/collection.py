"""What a server has: backends, the fields, words and numbers of their images, and its health."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from indexer.search.engine import Capability
from server import schemas
from server.backends import backends_of
from server.monitoring.metrics import Metrics
from server.problems import PROBLEM, ProblemError, responses
from server.requests import JsonRoute
from server.routes.common import (
    FILTER,
    MAX_QUERY_LENGTH,
    BackendName,
    BackendParameter,
    in_thread,
    json_response,
    read,
)

MOST = 50  # suggestions
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter(route_class=JsonRoute)


@router.get("/v1/backends", summary="List the backends")
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
        ]
    )


@router.get(
    "/v1/fields",
    summary="List the fields of the photos",
    response_model=schemas.FieldsAnswer,
    responses=responses("unknown-backend", "overloaded"),
)
async def list_fields(request: Request, backend: BackendParameter) -> Response:
    """The fields of the photos' metadata that filters may name, with their kinds."""
    version = backends_of(request).version

    def answer() -> schemas.FieldsAnswer:
        kinds = {name: str(kind) for name, kind in backend.searcher.kinds().items()}
        return schemas.FieldsAnswer(backend=backend.name, index_version=version, fields=kinds)

    return await in_thread(request, lambda _: json_response(answer()))


@router.get(
    "/v1/suggest",
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
    backends = backends_of(request)

    def answer() -> schemas.SuggestAnswer:
        found = backends.default.searcher.complete(q, k)
        suggestions = [schemas.SuggestionAnswer(**one._asdict()) for one in found]
        version = backends.version
        return schemas.SuggestAnswer(query=q, index_version=version, suggestions=suggestions)

    return await in_thread(request, lambda _: json_response(answer()))


class CountBody(BaseModel):
    """What is counted."""

    filter: Annotated[str | dict[str, Any] | None, Query(description=FILTER)] = None
    backend: BackendName = None


@router.post(
    "/v1/images/count",
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

    def answer() -> schemas.CountAnswer:
        count = backend.searcher.count(read(asked.filter))
        version = backends.version
        return schemas.CountAnswer(backend=backend.name, index_version=version, count=count)

    return await in_thread(request, lambda _: json_response(answer()))


@router.get("/livez", summary="Check that the server answers")
async def livez() -> schemas.Health:
    """A server that does not answer this must be started again."""
    return schemas.Health(status="ok")


@router.get(
    "/readyz", summary="Check that the server takes requests", responses=responses("stopping")
)
async def readyz(request: Request) -> schemas.Health:
    """A process accepts connections when its index is open and warm, and is ready until it stops.

    While it stops, it answers what it is asked, but should not be asked anything new.
    """
    if request.app.state.stopping:
        raise ProblemError("stopping", "the server is stopping; ask another one")
    return schemas.Health(status="ready")


@router.get("/metrics", include_in_schema=False)
def metrics(request: Request) -> Response:
    """The metrics of all processes, for Prometheus."""
    found: Metrics = request.app.state.metrics
    return Response(found.text(), media_type=METRICS_TYPE)
