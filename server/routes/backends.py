"""The list of backends."""

from __future__ import annotations

from fastapi import APIRouter, Request

from indexer.search.api import Explainer
from server import schemas
from server.backends import backends_of

router = APIRouter(prefix="/v1")


@router.get("/backends", summary="List the backends")
async def list_backends(request: Request) -> schemas.BackendList:
    """Every backend with its number of images and example queries, the default backend first."""
    backends = backends_of(request)
    return schemas.BackendList(
        backends=[
            schemas.BackendInfo(
                name=backend.name,
                default=backend is backends.default,
                images=len(backend.searcher),
                photos=backend.has_photos,
                explains=isinstance(backend.searcher, Explainer),
                examples=list(backend.examples),
            )
            for backend in backends
        ],
    )
