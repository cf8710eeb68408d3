"""The health check."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from server import schemas

router = APIRouter()


@router.get("/health", summary="Check that the server answers")
async def health() -> schemas.Health:
    """Status and version of the server."""
    return schemas.Health(status="ok", version=version("visualsparta"))
