"""Searches that are answered in one pass are answered as the application answers them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import pytest
from fastapi import FastAPI
from hypothesis import given, settings
from hypothesis import strategies as st

from server.backends import Backend
from server.requests_alike import SEEN
from tests.server.apps import app_of, make_key
from tests.server.fake import FakeDense, FakeSearcher
from tests.server.live import serving
from tests.server.test_connections import connect

Headers = list[tuple[bytes, bytes]]


class Answer(NamedTuple):
    """What an application sent, and whether it did so in one pass."""

    status: int
    headers: Headers
    body: bytes
    quick: bool


def ask(app: FastAPI, query: str, headers: Headers, quickly: bool, **values: Any) -> Answer:
    """Send a search to an application; not quickly, as if it had been tried in one pass before."""
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/search",
        "raw_path": b"/v1/search",
        "root_path": "",
        "query_string": query.encode("latin-1"),
        "headers": [(b"x-request-id", b"mine"), *headers],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    } | values
    if not quickly:
        scope[SEEN] = True
    sent: list[Any] = []

    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for message in received:
            return message
        return await asyncio.Future()  # this client never hangs up

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent[1:])
    # The application would look for the route among many.
    quick = "endpoint" not in scope and "caller" in scope and sent[0]["status"] == 200
    return Answer(sent[0]["status"], list(sent[0]["headers"]), body, quick)


def app_with(folder: Path, **values: Any) -> FastAPI:
    quick = Backend("sparta", FakeSearcher(), folder, quick=True, engine="columns")
    other = Backend("other one", FakeSearcher(), quick=True)
    return app_of(quick, other, Backend("vse++", FakeDense(), folder), **values)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(keys: Path) -> str:
    make_key(keys, "metrics")
    return make_key(keys)


@pytest.fixture(scope="module")
def app(photos: Path, keys: Path, key: str) -> FastAPI:
    return app_with(photos, keys=keys, rate=0)


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
    (b"connection", b"keep-alive"),
    (b"origin", b"https://app.example"),
    (b"origin", b"https://evil.example"),
    (b"content-length", b"0"),
    (b"content-length", b"100000"),
    (b"transfer-encoding", b"chunked"),
    (b"range", b"bytes=0-3"),
    (b"if-none-match", b"*"),
    (b"x-request-id", b"theirs"),
    (b"cookie", b"sparta_key=none"),
    (b"user-agent", b"test"),
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
def test_answers_equal_those_of_the_application(
    app: FastAPI, key: str, query: str, sent: Headers, who: int, host: int
) -> None:
    credentials = {0: [], 1: [(b"x-api-key", b"wrong")], 2: [(b"authorization", b"Basic x")]}
    bearer = [(b"authorization", b"Bearer " + key.encode())]
    hosts = {0: [], 1: [(b"host", b"evil.example")], 2: [(b"host", b"LOCALHOST.:80")]}
    headers = hosts.get(host, [(b"host", b"localhost")]) + credentials.get(who, bearer) + sent
    quick, slow = (ask(app, query, headers, quickly) for quickly in (True, False))
    assert not slow.quick
    assert (quick.status, quick.headers) == (slow.status, slow.headers)
    assert _body(quick) == _body(slow)


def _body(answer: Answer) -> bytes:
    """The body; a time that was measured in it is left out."""
    if (b"content-encoding", b"gzip") in answer.headers or b'"explain_ms":null' in answer.body:
        return answer.body
    found = json.loads(answer.body)
    found.get("timings", {}).pop("explain_ms", None)
    return json.dumps(found).encode()


@pytest.mark.parametrize("gzip", [False, True])
@pytest.mark.parametrize(
    "query", ["q=red", "q=red+blue&k=1&offset=1", "q=gren+azure&backend=other+one"]
)
def test_usual_searches_are_answered_in_one_pass(
    app: FastAPI, key: str, query: str, gzip: bool
) -> None:
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    headers += [(b"accept-encoding", b"gzip")] if gzip else []
    quick, slow = (ask(app, query, headers, quickly) for quickly in (True, False))
    assert quick.quick and not slow.quick
    assert quick[:3] == slow[:3]


@pytest.mark.parametrize("values", [{"method": "HEAD"}, {"method": "OPTIONS"}, {"path": "/v1/x"}])
def test_other_requests_are_left_to_the_application(
    app: FastAPI, key: str, values: dict[str, str]
) -> None:
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    quick, slow = (ask(app, "q=red", headers, quickly, **values) for quickly in (True, False))
    assert quick == slow and not quick.quick


@pytest.mark.parametrize(
    "values",
    [
        {"root_path": "/a"},
        {"trusted_proxies": ["10.0.0.1"]},
        {"cors_origins": ["https://app.example"]},
    ],
)
def test_where_there_are_further_middleware_all_is_left_to_the_application(
    photos: Path, keys: Path, key: str, values: dict[str, Any]
) -> None:
    app = app_with(photos, keys=keys, **values)
    assert not hasattr(app.state, "quick")


def test_what_is_counted_and_logged(photos: Path, keys: Path, key: str, tmp_path: Path) -> None:
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    counted, logged = [], []
    for quickly in (True, False):
        log = tmp_path / str(quickly)
        logs = {"access_log": str(log), "slow_query_ms": 0, "slow_query_log": f"{log}.slow"}
        app = app_with(photos, keys=keys, **logs)
        for query in ("q=red", "q=red&k=2", "q=red%5E0", "k=3", "q=blue&backend=other+one"):
            ask(app, query, headers, quickly)
        app.state.work.close()
        lines = app.state.metrics.text().decode().splitlines()
        counted.append([line for line in lines if "_count" in line])
        logged.append([*_lines(app, log), *_lines(app, Path(f"{log}.slow"))])
    assert counted[0] == counted[1] and any("search_duration" in line for line in counted[0])
    assert logged[0] == logged[1] and len(logged[0]) == 8


def _lines(app: FastAPI, log: Path) -> list[dict[str, Any]]:
    monitor = app.state.quick._monitor
    for one in (monitor.access_log, monitor.slow_log):
        one.flush()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("time", "ms")} for line in lines]


def test_a_request_is_counted_once_by_the_limit(photos: Path, keys: Path, key: str) -> None:
    app = app_with(photos, keys=keys, rate=0.2)  # two at once
    headers = [(b"host", b"localhost"), (b"x-api-key", key.encode())]
    queries = ("q=red%5E0", "q=red", "q=red", "q=red%5E0")
    statuses = [ask(app, query, headers, True).status for query in queries]
    assert statuses == [422, 200, 429, 429]


def test_a_connection_with_both_kinds_of_answers(photos: Path) -> None:
    """Sent at once: what comes after an answer of the application waits for it."""
    backend = Backend("sparta", FakeSearcher(), photos, quick=True)
    with serving(backend) as address:
        host = urlsplit(address).netloc.encode()
        slow, last = b"Content-Length: 0\r\n", b"Connection: close\r\n"
        asked = [b"", slow, b"", slow, last]
        end = b" HTTP/1.1\r\nX-Request-Id: a\r\nHost: " + host + b"\r\n"
        start = b"GET /v1/search?q=" + quote("red é").encode()
        with connect(address) as connection:
            connection.sendall(b"".join(start + end + more + b"\r\n" for more in asked))
            received = b""
            while part := connection.recv(65_536):
                received += part
    parts = received.split(b"HTTP/1.1 ")[1:]
    assert len(parts) == 5
    assert parts[-1].replace(b"connection: close\r\n", b"") == parts[0]
    assert parts[0] == parts[1] == parts[2] == parts[3]
