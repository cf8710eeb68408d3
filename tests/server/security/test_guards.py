"""The order of the middleware: proxies, root path, hosts, other sites."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from server.backends import Backend
from server.security.access import route_path
from server.security.guards import RootPath
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

SEARCH = "/v1/search?q=red"
SITE = {"Origin": "https://app.example"}
BACKEND = Backend("sparta", FakeSearcher())


def test_named_sites_may_ask_with_a_key(file: Path) -> None:
    app = app_of(BACKEND, cors_origins=["https://app.example"], keys=file)
    client, key = client_of(app), make_key(file)
    asked = {"Access-Control-Request-Method": "GET"}
    asked |= {"Access-Control-Request-Headers": "authorization,x-api-key"}
    allowed = client.options(SEARCH, headers=SITE | asked)
    assert allowed.status_code == 200
    assert allowed.headers["access-control-allow-origin"] == "https://app.example"
    for headers, status in ((SITE, 401), (SITE | {"X-API-Key": key}, 200)):
        answer = client.get(SEARCH, headers=headers)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-credentials" not in answer.headers
    other = client.get(SEARCH, headers={"Origin": "https://evil.example", "X-API-Key": key})
    assert "access-control-allow-origin" not in other.headers


def test_other_sites_may_not_send_what_changes_something(file: Path) -> None:
    client = client_of(app_of(BACKEND, cors_origins=["https://app.example"], keys=file))
    for method in ("POST", "DELETE"):
        asked = {"Access-Control-Request-Method": method}
        assert client.options("/v1/sign-in", headers=SITE | asked).status_code == 400


def test_without_named_sites_no_script_elsewhere_reads_anything(file: Path) -> None:
    client = client_of(app_of(BACKEND, keys=file))
    answer = client.get(SEARCH, headers=SITE)
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def limited_as(trusted: list[str], peer: str, forwarded: str, file: Path) -> str:
    """Under which name the limits count a request."""
    client = client_of(app_of(BACKEND, keys=file, trusted_proxies=trusted, rate=0.1), address=peer)
    headers = {"X-Forwarded-For": forwarded}
    statuses = [client.get(SEARCH, headers=headers).status_code for _ in range(2)]
    assert statuses == [401, 429]
    detail: str = client.get(SEARCH, headers=headers).json()["detail"]
    return detail.partition(" has ")[0]


def test_forwarded_addresses_are_believed_of_named_proxies_alone(file: Path) -> None:
    for trusted, peer, forwarded, name in [
        ([], "127.0.0.1", "203.0.113.9", "address 127.0.0.1"),
        (["10.0.0.0/8"], "127.0.0.1", "203.0.113.9", "address 127.0.0.1"),
        (["10.0.0.0/8"], "10.1.2.3", "203.0.113.9", "address 203.0.113.9"),
        (["10.1.2.3"], "10.1.2.3", "127.0.0.1, 203.0.113.9", "address 203.0.113.9"),
        (["10.1.2.3"], "10.1.2.3", "127.0.0.1", "address 127.0.0.1"),
    ]:
        assert limited_as(trusted, peer, forwarded, file) == name


def test_below_a_path(file: Path, photos: Path) -> None:
    app = app_of(Backend("sparta", FakeSearcher(), photos), root_path="/photos/", keys=file)
    client, key = client_of(app), {"X-API-Key": make_key(file)}
    for prefix in ("", "/photos"):
        [hit, *_] = client.get(f"{prefix}{SEARCH}", headers=key).json()["hits"]
        assert hit["url"] == "/photos/v1/images/garden/one.png/file"
        assert client.get(f"{prefix}{hit['url'].removeprefix('/photos')}", headers=key).is_success
        assert all(client.get(f"{prefix}/{path}").is_success for path in ("", "page/app.js"))
        assert client.get(f"{prefix}/livez", headers={"Host": "any"}).is_success
        assert client.get(f"{prefix}{SEARCH}").status_code == 401
        documentation = client.get(f"{prefix}/docs", headers=key)
        assert "cdn.jsdelivr.net" in documentation.headers["content-security-policy"]
    moved = client.get("/photos", follow_redirects=False)
    assert (moved.status_code, moved.headers["location"]) == (307, "/photos/")
    signed_in = client.post("/photos/v1/sign-in", json={"key": key["X-API-Key"]})
    assert "Path=/photos/;" in signed_in.headers["set-cookie"]


# ---- below a path of another site ----------------------------------------------------------------


def show(request: Request) -> JSONResponse:
    return JSONResponse([route_path(request.scope), str(request.url_for("found"))])


@pytest.fixture
def prefixed() -> TestClient:
    routes = [Route("/found", show, name="found"), Mount("/folder", Route("/found", show))]
    return TestClient(RootPath(Starlette(routes=routes), "/photos"))


@pytest.mark.parametrize("path", ["/found", "/photos/found"])
def test_with_and_without_the_prefix(prefixed: TestClient, path: str) -> None:
    assert prefixed.get(path).json() == ["/found", "http://testserver/photos/found"]
    assert prefixed.get(path.replace("found", "folder/found")).status_code == 200


def test_another_prefix_is_none(prefixed: TestClient) -> None:
    assert prefixed.get("/photosfound").status_code == 404
    assert prefixed.get("/other/found").status_code == 404
