"""Serving below a path of another site."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from server.security.root_path import RootPath, route_path


def show(request: Request) -> JSONResponse:
    return JSONResponse([route_path(request.scope), str(request.url_for("found"))])


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/found", show, name="found"), Mount("/folder", Route("/found", show))]
    return TestClient(RootPath(Starlette(routes=routes), "/photos"))


@pytest.mark.parametrize("path", ["/found", "/photos/found"])
def test_with_and_without_the_prefix(client: TestClient, path: str) -> None:
    assert client.get(path).json() == ["/found", "http://testserver/photos/found"]
    assert client.get(path.replace("found", "folder/found")).status_code == 200


def test_another_prefix_is_none(client: TestClient) -> None:
    assert client.get("/photosfound").status_code == 404
    assert client.get("/other/found").status_code == 404
