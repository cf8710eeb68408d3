"""Who sent a request, for which host, signed in how, and what the page of this server may write."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from server.backends import Backend
from server.routes.about import MAX_AGE
from server.security.callers import Caller, Callers
from server.security.keys import KeyRing, Scope, new_key, write_keys
from tests.server.apps import app_of, client_of, make_key
from tests.server.fake import FakeSearcher

LOCAL = {"host": "localhost:8000"}
HERE = Caller("this machine", frozenset({"search", "metrics"}), limited=False)


def request(headers: dict[str, str], client: str | None = "127.0.0.1") -> dict[str, Any]:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    sent = {"type": "http", "method": "GET", "scheme": "http", "headers": pairs}
    return sent | {"client": client and (client, 5000)}


def add(file: Path, scope: Scope, expires: datetime | None = None) -> tuple[str, str]:
    key, text = new_key("a", scope, expires)
    write_keys(file, [*KeyRing(file), key])
    return key.id, text


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:1", "[::1]:8000"])
@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_needs_no_key_where_there_is_none(file: Path, host: str, client: str) -> None:
    callers = Callers(KeyRing(file), direct=True)
    assert callers.identify(request({"host": host}, client)) == HERE


@pytest.mark.parametrize(
    "header",
    [
        *("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-whatever"),
    ],
)
def test_a_proxy_on_this_machine_is_not_this_machine(file: Path, header: str) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for value in ("", "127.0.0.1"):
        found = callers.identify(request(LOCAL | {header: value}))
        assert found == Caller("address 127.0.0.1", frozenset())
    # Nor is one that passes the host on, or that is named.
    for headers in ({"host": "photos.example"}, {"host": "192.168.1.5"}, {"host": ""}, {}):
        assert not callers.identify(request(headers)).allows
    assert not Callers(KeyRing(file), direct=False).identify(request(LOCAL)).allows


@pytest.mark.parametrize("client", ["192.168.1.5", "2001:db8::1", "::ffff:10.0.0.1", "x", None])
def test_other_machines_need_a_key(file: Path, client: str | None) -> None:
    found = Callers(KeyRing(file), direct=True).identify(request(LOCAL, client))
    assert not found.allows and found.limited


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::FFFF:102:304", "1.2.3.4"),
        ("1.2.3.4", "1.2.3.4"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("x", "x"),
    ],
)
def test_an_address_counts_as_what_one_client_can_have(file: Path, address: str, name: str) -> None:
    found = Callers(KeyRing(file), direct=True).identify(request(LOCAL, address))
    assert found.name == f"address {name}"


def test_as_soon_as_there_are_keys_this_machine_needs_one(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    assert callers.identify(request(LOCAL)) == HERE
    write_keys(file, [])
    assert not callers.identify(request(LOCAL)).allows


@pytest.mark.parametrize(
    ("scope", "allows"),
    [
        ("search", {"search"}),
        ("write", {"search", "write"}),
        ("admin", {"search", "write", "admin", "metrics"}),
        ("metrics", {"metrics"}),
    ],
)
def test_keys_in_headers_and_in_a_cookie_which_allows_searching_alone(
    file: Path, scope: Scope, allows: set[str]
) -> None:
    callers, (key_id, text) = Callers(KeyRing(file), direct=True), add(file, scope)
    for header in (
        {"authorization": f"Bearer {text}"},
        {"authorization": f"bearer  {text} "},
        {"x-api-key": text},
        {"authorization": "Basic abc", "x-api-key": text},
    ):
        found = callers.identify(request(header, "192.168.1.5"))
        assert (found.name, found.allows, found.limited) == (f"key {key_id}", allows, True)
        assert found.key is not None and found.key.id == key_id
    found = callers.identify(request(LOCAL | {"cookie": f"other=1; sparta_key={text}"}))
    assert (found.name, found.allows) == (f"key {key_id}", allows & {"search"})


def test_keys_that_are_not_valid(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    key_id, text = add(file, "admin", datetime.now(UTC))
    for sent, why in {
        text: f"the key {key_id} has expired",
        f"sparta_{key_id}_wrong": "the key is unknown, or was revoked",
        "é": "the key is unknown, or was revoked",
    }.items():
        for header in ({"authorization": f"Bearer {sent}"}, {"x-api-key": sent}):
            found = callers.identify(request(LOCAL | header))
            assert (found.allows, found.refused, found.name) == (set(), why, "address 127.0.0.1")
    file.unlink()  # where none is needed
    assert callers.identify(request(LOCAL | {"x-api-key": "wrong"})).refused


def test_a_cookie_that_is_not_valid_counts_as_none(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    for cookie in ("sparta_key=wrong", "other=1", "", ";;="):
        assert callers.identify(request(LOCAL | {"cookie": cookie})) == HERE
    _, text = add(file, "search", datetime.now(UTC))
    found = callers.identify(request(LOCAL | {"cookie": f"sparta_key={text}"}))
    assert not found.allows and not found.refused


def test_ipv6_addresses_count_as_their_network(file: Path) -> None:
    callers = Callers(KeyRing(file), direct=True)
    names = [callers.identify(request({}, f"2001:db8:0:7:{n}::1%eth0")).name for n in (1, 2)]
    assert names == ["address 2001:db8:0:7::/64"] * 2
    assert callers.identify(request({}, "no:address")).name == "address no:address"


@pytest.mark.parametrize(
    ("listening", "header", "answered"),
    [
        ("127.0.0.1", "127.0.0.1:8000", True),
        ("127.0.0.1", "localhost:8000", True),
        ("127.0.0.1", "[::1]:8000", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "[::1]evil.example", False),
        ("127.0.0.1", "[::1]evil.example:80", False),
        ("127.0.0.1", "127.0.0.1:evil.example", False),
        ("127.0.0.1", "[[::1]]", False),
        ("0.0.0.0", "[::1]evil.example", False),
        ("127.0.0.1", "192.168.1.5", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "photos.example:80", True),
        ("192.168.1.5", "192.168.1.5:8000", True),
        ("192.168.1.5", "localhost", False),
        ("0.0.0.0", "192.168.1.5", True),
        ("0.0.0.0", socket.gethostname(), True),
        ("::", "localhost", True),
        ("0.0.0.0", "evil.example", False),
    ],
)
def test_hosts(listening: str, header: str, answered: bool, tmp_path: Path) -> None:
    backend, keys = Backend("sparta", FakeSearcher()), tmp_path / "keys.json"
    sent = {"Host": header, "X-API-Key": make_key(keys)}
    app = app_of(backend, host=listening, allowed_hosts=["Photos.example"], keys=keys)
    with client_of(app) as client:
        response = client.get("/v1/search?q=red", headers=sent)
        assert response.status_code == (200 if answered else 421)
        assert client.get("/livez", headers={"Host": header}).status_code == 200
        if not answered:
            assert response.headers["content-type"] == "application/problem+json"
            assert "content-security-policy" in response.headers
            assert response.json()["type"].endswith("wrong-host")
            assert "--set allowed_hosts=" in response.json()["detail"]
            assert client.get("/", headers={"Host": header}).status_code == 421
        twice = [("Host", "localhost"), ("Host", header), *sent.items()]
        assert client.get("/v1/search?q=red", headers=twice).status_code == 421


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
    """And with one of an admin, which administers nothing there; with no other."""
    nobody = client_of(app_of(Backend("sparta", FakeSearcher()), keys=file))
    assert statuses(nobody, PAGE) == {401}
    assert statuses(signed_in(file, "search"), PAGE) == REFUSED
    admin = signed_in(file, "admin")
    assert (statuses(admin, PAGE), admin.get("/v1/keys", headers=PAGE).status_code) == (PASSED, 403)
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


SEARCH = "/v1/search?q=red"
PHOTO = "/v1/images/garden/one.png/file"
SESSION, SIGN_IN, SIGN_OUT = "/v1/session", "/v1/sign-in", "/v1/sign-out"


@pytest.fixture
def client(photos: Path, file: Path) -> TestClient:
    return client_of(app_of(Backend("sparta", FakeSearcher(), photos), keys=file))


def cookie(answer: Any) -> Morsel[str]:
    return SimpleCookie(answer.headers["set-cookie"])["sparta_key"]


def test_signed_in_until_signed_out(client: TestClient, file: Path) -> None:
    assert client.get(SESSION).json() == {"key": None, "allows": ["metrics", "search"]}
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
    short = make_key(file, "search", datetime.now(UTC) + timedelta(minutes=10))
    age = int(cookie(client.post(SIGN_IN, json={"key": short}))["max-age"])
    assert 590 < age <= 600  # it ends with the key
    encrypted = client.post(f"https://localhost{SIGN_IN}", json={"key": make_key(file)})
    assert cookie(encrypted)["secure"]
    assert cookie(client.post(SIGN_OUT))["max-age"] == "0"


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
        assert answer.status_code == 415 and "set-cookie" not in answer.headers


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
