"""`GET /v1/search` without the layers of the application is answered as with them."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from server.backends import Backend
from server.routes.search import pairs_of
from tests.server.apps import app_of, make_key
from tests.server.fake import FakeDense, FakeSearcher

Headers = list[tuple[bytes, bytes]]


class Answer(NamedTuple):
    """What an application sent."""

    status: int
    headers: Headers
    body: bytes


def ask(app: ASGIApp, query: str, headers: Headers, path: str = "/v1/search") -> Answer:
    """Send a search to an application."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode("latin-1"),
        "headers": [(b"x-request-id", b"mine"), *headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    }
    sent: list[Any] = []
    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in received:
            return message
        return await asyncio.Future()  # this client never hangs up

    async def send(message: Any) -> None:
        sent.append(message)

    async def answer() -> None:
        await app(scope, receive, send)

    asyncio.run(answer())
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return Answer(sent[0]["status"], sorted(sent[0]["headers"]), body)


def app_with(folder: Path, **values: Any) -> FastAPI:
    quick = Backend("sparta", FakeSearcher(quick=True), folder)
    other = Backend("other one", FakeSearcher(quick=True))
    return app_of(quick, other, Backend("vse++", FakeDense(), folder), **values)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(keys: Path) -> str:
    make_key(keys, "metrics")
    return make_key(keys)


FURTHER: list[dict[str, Any]] = [
    {},
    {"root_path": "/photos"},
    {"trusted_proxies": ["127.0.0.1"]},
    {"cors_origins": ["https://app.example"]},
]


@pytest.fixture(scope="module", params=FURTHER, ids=lambda further: "".join(further) or "plain")
def apps(
    photos: Path, keys: Path, key: str, request: pytest.FixtureRequest
) -> tuple[ASGIApp, ASGIApp]:
    plain, other = (app_with(photos, keys=keys, rate=0, **request.param) for _ in range(2))
    return plain, partial(FastAPI.__call__, other)


WORDS = ["red", "green", "blue", "azure", "gren", "qwx", "-blue", "+red", "red^2", "red^0", '"é']
TEXT = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=12)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.sampled_from([1, 2, 10, 100, 101, 0, 1001, "x"]),
    "backend": st.sampled_from(["sparta", "other one", "vse++", "none"]),
    "substitute": st.sampled_from(["true", "false", "maybe"]),
    "offset": st.sampled_from([0, 1, 4, 100, -1]),
    "explain": st.sampled_from(["false", "true"]),
    "filter": st.sampled_from(["", "width:200..300"]),
    "min_coverage": st.sampled_from([0, 0.5, 2]),
    "sort": st.sampled_from(["", "width"]),
    "cursor": st.sampled_from(["", "x"]),
    "partial": st.sampled_from(["true", "false"]),
    "facets": st.sampled_from(["", "width"]),
}
SENT: list[tuple[bytes, bytes]] = [
    (b"accept-encoding", b"gzip, deflate"),
    (b"accept-encoding", b"br"),
    (b"origin", b"https://app.example"),
    (b"origin", b"https://evil.example"),
    (b"content-length", b"0"),
    (b"content-length", b"100000"),
    (b"transfer-encoding", b"chunked"),
    (b"range", b"bytes=0-3"),
    (b"x-request-id", b"theirs"),
    (b"cookie", b"sparta_key=none"),
    (b"x-forwarded-for", b"192.0.2.7"),
]


@st.composite
def queries(draw: st.DrawFn) -> str:
    usual = {"q": draw(TEXT), **draw(st.fixed_dictionaries({}, optional={"k": VALUES["k"]}))}
    unusual = draw(st.just({}) | st.fixed_dictionaries({}, optional=VALUES))
    twice = draw(st.sampled_from(["", "&q=blue", "&&=&k", "&k=3;4", "&q=%ff%C3%A9", "&q=\xff+a"]))
    return urlencode(usual | unusual) + twice


@settings(max_examples=200, deadline=None)
@given(
    queries(), st.lists(st.sampled_from(SENT), max_size=3), st.integers(0, 12), st.integers(0, 9)
)
def test_answers_equal_those_of_all_layers(
    apps: tuple[ASGIApp, ASGIApp], key: str, query: str, sent: Headers, who: int, host: int
) -> None:
    credentials = {0: [], 1: [(b"x-api-key", b"wrong")], 2: [(b"authorization", b"Basic x")]}
    bearer = [(b"authorization", b"Bearer " + key.encode())]
    hosts = {0: [], 1: [(b"host", b"evil.example")], 2: [(b"host", b"LOCALHOST.:80")]}
    headers = hosts.get(host, [(b"host", b"localhost")]) + credentials.get(who, bearer) + sent
    path = "/photos/v1/search" if host % 2 else "/v1/search"  # with and without the root path
    plain, slow = (ask(app, query, headers, path) for app in apps)
    assert (plain.status, plain.headers) == (slow.status, slow.headers)
    assert _body(plain) == _body(slow)


def _body(answer: Answer) -> bytes:
    """The body; a time that was measured in it is left out."""
    if (b"content-encoding", b"gzip") in answer.headers or b'"explain_ms":null' in answer.body:
        return answer.body
    found = json.loads(answer.body)
    found.get("timings", {}).pop("explain_ms", None)
    return json.dumps(found).encode()


def test_what_is_counted_and_logged(photos: Path, keys: Path, key: str, tmp_path: Path) -> None:
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    counted, logged = [], []
    for name in ("plain", "layered"):
        log = tmp_path / name
        logs = {"access_log": str(log), "slow_query_ms": 0, "slow_query_log": f"{log}.slow"}
        app = app_with(photos, keys=keys, **logs)
        asked = partial(FastAPI.__call__, app) if name == "layered" else app
        for query in ("q=red", "q=red&k=2", "q=red%5E0", "k=3", "q=blue&backend=other+one"):
            ask(asked, query, headers)
        app.state.work.close()
        lines = app.state.metrics.text().decode().splitlines()
        counted.append([line for line in lines if "_count" in line])
        app.state.monitor.close()
        logged.append([*_lines(log), *_lines(Path(f"{log}.slow"))])
    assert counted[0] == counted[1] and any("search_duration" in line for line in counted[0])
    assert logged[0] == logged[1] and len(logged[0]) == 8


def _lines(log: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("time", "ms")} for line in lines]


def test_an_unexpected_error_is_answered_and_raised(photos: Path, keys: Path, key: str) -> None:
    """The server logs what is raised."""
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    app = app_with(photos, keys=keys)
    with pytest.raises(RuntimeError, match="secret internals"):
        ask(app, "q=explode", headers)
    assert 'code="500"' in app.state.metrics.text().decode()


def test_a_request_is_counted_once_by_the_limit(photos: Path, keys: Path, key: str) -> None:
    app = app_with(photos, keys=keys, rate=0.2)  # two at once
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    queries = ("q=red%5E0", "q=red", "q=red", "q=red%5E0")
    assert [ask(app, query, headers).status for query in queries] == [422, 200, 429, 429]


@given(st.binary() | st.text("ab=&+;%20C3A9é", max_size=30).map(str.encode))
def test_names_and_values_are_those_of_the_standard_library(query: bytes) -> None:
    assert pairs_of(query) == parse_qsl(query.decode("latin-1"), keep_blank_values=True)
