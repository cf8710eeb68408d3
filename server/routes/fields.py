"""The fields that filters, facets and orders may name."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from indexer.search.api import Filterable
from server import schemas
from server.backends import Backend, backends_of
from server.problems import responses
from server.routes.hits import json_response
from server.routes.parameters import BackendParameter
from server.work import Work

router = APIRouter(prefix="/v1")


@router.get(
    "/fields",
    summary="List the fields of the photos",
    response_model=schemas.FieldsAnswer,
    responses=responses("unknown-backend", "overloaded"),
)
async def list_fields(request: Request, backend: BackendParameter) -> Response:
    """The fields of the photos' metadata that filters may name, with their kinds."""
    work: Work = request.app.state.work
    return await work.run(request, lambda _: json_response(_answer(request, backend)))


def _answer(request: Request, backend: Backend) -> schemas.FieldsAnswer:
    searcher = backend.searcher
    found = searcher.field_index().kinds if isinstance(searcher, Filterable) else {}
    return schemas.FieldsAnswer(
        backend=backend.name,
        index_version=backends_of(request).version,
        fields=dict(found),
    )
