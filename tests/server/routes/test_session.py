"""Signing in and out, as a browser does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from server.routes.keys import MAX_AGE
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

SEARCH = "/v1/search?q=red"
PHOTO = "/v1/images/garden/one.png/file"
SESSION, SIGN_IN, SIGN_OUT = "/v1/session", "/v1/sign-in", "/v1/sign-out"


@pytest.fixture
def client(photos: Path, file: Path) -> TestClient:
    return client_of(app_of(Backend("sparta", FakeSearcher(), photos), keys=file))


def cookie(answer: Any) -> Morsel[str]:
    return SimpleCookie(answer.headers["set-cookie"])["sparta_key"]


def test_signed_in_until_signed_out(client: TestClient, file: Path) -> None:
    key = make_key(file)
    assert [client.get(path).status_code for path in (SEARCH, PHOTO)] == [401, 401]
    answer = client.post(SIGN_IN, json={"key": f" {key}\n"})
    assert (answer.status_code, answer.content) == (204, b"")
    assert [client.get(path).status_code for path in (SEARCH, PHOTO)] == [200, 200]
    shown = client.get(SESSION).json()
    assert (shown["key"]["name"], shown["allows"]) == ("search key", ["search"])
    assert "sha256" not in shown["key"] and key not in str(shown)
    assert client.post(SIGN_OUT).status_code == 204
    assert [client.get(path).status_code for path in (SEARCH, PHOTO)] == [401, 401]


def test_the_cookie_is_for_this_site_and_no_script(client: TestClient, file: Path) -> None:
    found = cookie(client.post(SIGN_IN, json={"key": make_key(file)}))
    assert found["httponly"] and found["samesite"] == "strict" and found["path"] == "/"
    assert not found["secure"] and not found["domain"]
    assert int(found["max-age"]) == MAX_AGE
    encrypted = client.post(f"https://localhost{SIGN_IN}", json={"key": make_key(file)})
    assert cookie(encrypted)["secure"]
    assert cookie(client.post(SIGN_OUT))["max-age"] == "0"


def test_the_cookie_ends_with_the_key(client: TestClient, file: Path) -> None:
    key = make_key(file, "search", datetime.now(UTC) + timedelta(minutes=10))
    age = int(cookie(client.post(SIGN_IN, json={"key": key}))["max-age"])
    assert 590 < age <= 600


def test_an_admin_sees_all_keys_but_no_hashes_and_its_cookie_sees_none(
    client: TestClient, file: Path
) -> None:
    key, _ = make_key(file, "admin"), make_key(file)
    client.post(SIGN_IN, json={"key": key})
    assert client.get(SESSION).json()["allows"] == ["search"]
    assert client.get("/v1/keys").status_code == 403
    found = client.get("/v1/keys", headers={"X-API-Key": key}).json()["keys"]
    assert [one["scope"] for one in found] == ["admin", "search"]
    assert set(found[0]) == {"id", "name", "scope", "created", "expires"}


def test_keys_that_cannot_sign_in(client: TestClient, file: Path) -> None:
    expired = make_key(file, "search", datetime.now(UTC))
    for sent, status, why in [
        ("wrong", 401, "the key is unknown, or was revoked"),
        (expired, 401, "has expired"),
        (make_key(file, "metrics"), 403, "does not allow searching"),
        (5, 422, "key: input should be a valid string"),
    ]:
        answer = client.post(SIGN_IN, json={"key": sent})
        assert answer.status_code == status and why in answer.json()["detail"]
        assert "set-cookie" not in answer.headers
        assert ("www-authenticate" in answer.headers) == (status == 401)


def test_a_form_of_another_site_signs_nobody_in(client: TestClient, file: Path) -> None:
    key = make_key(file)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        headers = {"Content-Type": kind, "Origin": "https://evil.example"}
        answer = client.post(SIGN_IN, content=f'{{"key": "{key}"}}', headers=headers)
        assert answer.status_code == 422 and "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", [SIGN_IN, SIGN_OUT])
def test_pages_of_other_sites_sign_nobody_in_or_out(
    client: TestClient, file: Path, path: str
) -> None:
    body = {"key": make_key(file)}
    for origin in ("https://evil.example", "null", "http://localhost:3000", "http://["):
        answer = client.post(path, json=body, headers={"Origin": origin})
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        assert answer.json()["type"].endswith(":other-site")
    answer = client.post(path, json=body, headers={"Origin": "http://localhost"})
    assert answer.status_code == 204


def test_without_keys_nobody_is_signed_in(client: TestClient) -> None:
    assert client.get(SESSION).json() == {"key": None, "allows": ["metrics", "search"]}
