"""The list of API keys."""

from __future__ import annotations

from fastapi import APIRouter, Request

from server import schemas
from server.security.access import requires
from server.security.keys import KeyRing

router = APIRouter(prefix="/v1")


@router.get("/keys", summary="List the API keys", dependencies=[requires("admin")])
async def list_keys(request: Request) -> schemas.KeyList:
    """Every key that the server accepts, expired ones included, with a key of scope admin."""
    ring: KeyRing = request.app.state.keys
    return schemas.KeyList(keys=[schemas.KeyInfo.model_validate(key) for key in ring])
