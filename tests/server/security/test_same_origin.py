"""What a browser that is signed in may write: what the page of this very server asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from server.security.keys import Scope
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

HEADER = {"X-Sparta-Page": "1"}
PAGE = {**HEADER, "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
WRITES = [
    ("PUT", "/v1/images/a"),
    ("PATCH", "/v1/images/a"),
    ("DELETE", "/v1/images/a"),
    ("POST", "/v1/images/batch"),
    ("POST", "/v1/images/delete"),
]


def signed_in(file: Path, scope: Scope = "write", **values: Any) -> TestClient:
    """A browser that has the cookie of a key."""
    app = app_of(Backend("sparta", FakeSearcher()), keys=file, **values)
    client = client_of(app)
    assert client.post("/v1/sign-in", json={"key": make_key(file, scope)}).status_code == 204
    return client


def statuses(client: TestClient, headers: dict[str, str]) -> set[int]:
    body: dict[str, list[str]] = {"ids": []}
    return {client.request(*one, json=body, headers=headers).status_code for one in WRITES}


# 409 is passed: this application has no process that writes.
PASSED, REFUSED = {409}, {403}


def test_the_page_writes_with_a_key_for_writing(file: Path) -> None:
    client = signed_in(file)
    assert statuses(client, PAGE) == PASSED
    plain = {name: PAGE[name] for name in ("X-Sparta-Page", "Origin")}
    assert statuses(client, plain) == PASSED  # as browsers send it to other machines without TLS
    assert client.get("/v1/session", headers=HEADER).json()["allows"] == ["search", "write"]
    assert client.get("/v1/session").json()["allows"] == ["search"]


@pytest.mark.parametrize("name", ["X-Sparta-Page", "Origin"])
def test_the_cookie_alone_writes_nothing(file: Path, name: str) -> None:
    sent = {one: value for one, value in PAGE.items() if one != name}
    assert statuses(signed_in(file), sent) == REFUSED


@pytest.mark.parametrize(
    "sent",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://evil.localhost"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_pages_of_other_sites_write_nothing(file: Path, sent: dict[str, str]) -> None:
    client = signed_in(file)
    assert statuses(client, {**HEADER, "Origin": "http://localhost", **sent}) == REFUSED
    forged = {name: value for name, value in sent.items() if name != "Sec-Fetch-Site"}
    form = {**forged, "Content-Type": "text/plain"}
    answer = client.post("/v1/images/delete", content='{"ids": ["a"]}', headers=form)
    assert answer.status_code == 403


def test_a_page_without_tls_writes_nothing_to_one_with_tls(file: Path) -> None:
    client = signed_in(file)
    client.base_url = client.base_url.copy_with(scheme="https")
    plain = {**HEADER, "Origin": "http://localhost"}
    assert statuses(client, plain) == REFUSED
    assert statuses(client, {**plain, "Origin": "https://localhost"}) == PASSED


def test_named_sites_may_not_send_the_header_of_the_page(file: Path) -> None:
    origin = "https://app.example"
    client = signed_in(file, cors_origins=[origin])
    asked = {
        "Origin": origin,
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "x-sparta-page",
    }
    answer = client.options("/v1/images/a", headers=asked)
    assert answer.status_code == 400
    assert "access-control-allow-credentials" not in answer.headers


def test_a_key_for_searching_writes_nothing_on_the_page(file: Path) -> None:
    client = signed_in(file, "search")
    assert statuses(client, PAGE) == REFUSED
    assert client.get("/v1/session", headers=HEADER).json()["allows"] == ["search"]


def test_a_key_of_an_admin_administers_nothing_on_the_page(file: Path) -> None:
    client = signed_in(file, "admin")
    assert client.get("/v1/keys", headers=PAGE).status_code == 403
    assert statuses(client, PAGE) == PASSED


def test_without_keys_the_page_writes_nothing(file: Path) -> None:
    client = client_of(app_of(Backend("sparta", FakeSearcher()), keys=file))
    assert statuses(client, PAGE) == {401}
