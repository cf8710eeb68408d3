"""Endpoints that read the request by themselves."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.testclient import TestClient

from server.routes import search
from server.routes.direct import DirectRoute


def test_the_endpoint_gets_the_request_and_its_response_is_sent_as_it_is() -> None:
    router = APIRouter(route_class=DirectRoute)

    @router.get("/echo")
    async def echo(request: Request) -> Response:
        return Response(request.scope["query_string"], status_code=203)

    app = FastAPI()
    app.include_router(router)
    answer = TestClient(app).get("/echo?a=1&a=2")
    assert (answer.status_code, answer.text) == (203, "a=1&a=2")


def test_direct_routes_have_no_dependencies_that_would_be_skipped() -> None:
    assert search.direct.routes
    for route in search.direct.routes:
        assert isinstance(route, DirectRoute)
        assert not route.dependencies
        assert not route.dependant.dependencies
        assert not route.dependant.query_params
