"""How many images a filter lets through."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from server import schemas
from server.backends import Backend, backends_of
from server.json_bodies import JsonRoute
from server.problems import PROBLEM, responses
from server.routes.filtering import allowed_by, fields_of
from server.routes.hits import json_response
from server.routes.parameters import CountBody
from server.work import Work

router = APIRouter(prefix="/v1/images", route_class=JsonRoute)


@router.post(
    "/count",
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
    backend = backends_of(request).get(asked.backend)
    work: Work = request.app.state.work
    return await work.run(request, lambda _: json_response(count_answer(request, backend, asked)))


def count_answer(request: Request, backend: Backend, asked: CountBody) -> schemas.CountAnswer:
    """Evaluate the filter."""
    allowed = allowed_by(backend, asked.filter)
    return schemas.CountAnswer(
        backend=backend.name,
        index_version=backends_of(request).version,
        count=len(backend.searcher) if allowed is None else fields_of(backend).count(allowed),
    )
