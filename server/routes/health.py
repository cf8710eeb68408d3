"""Whether the server lives and is ready, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from server import schemas
from server.monitoring.metrics import Metrics
from server.problems import ProblemError, responses

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

router = APIRouter()


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
