"""The list of backends."""

from __future__ import annotations

from fastapi import APIRouter, Request

from indexer.search.api import Explainer
from server import schemas
from server.backends import backends_of

router = APIRouter(prefix="/v1")


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
                missing_images=backend.missing,
                photos=backend.has_photos,
                explains=isinstance(backend.searcher, Explainer),
                examples=list(backend.examples),
            )
            for backend in backends
        ],
    )
