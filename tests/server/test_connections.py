"""Connections of clients that are slow, idle, too many, or do not speak HTTP."""

from __future__ import annotations

import json
import re
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from server import connections
from server.backends import Backend
from server.security.guards import SECURITY_HEADERS
from tests.server.apps import serving
from tests.server.fake import FakeSearcher

SECONDS = 0.6
SEARCH = b"GET /v1/search?q=red HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def address(photos: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(connections, "SECONDS", SECONDS)
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with serving(Backend("sparta", FakeSearcher(quick=True), photos)) as address:
        yield address


def connect(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((str(url.hostname), url.port or 80), timeout=20)


def answer(connection: socket.socket) -> bytes:
    """Everything until the server closes."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def exchanged(address: str, sent: bytes) -> bytes:
    """Everything that the server answers to bytes on a connection of their own."""
    with connect(address) as connection:
        connection.sendall(sent)
        return answer(connection)


def problem(raw: bytes, status: int) -> str:
    """The detail of an answer that is a problem."""
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert first.startswith(f"HTTP/1.1 {status} ")
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["Connection"] == "close"
    assert headers.items() >= SECURITY_HEADERS.items()
    assert int(headers["Content-Length"]) == len(body)
    assert ("Retry-After" in headers) == (status == 503)
    found: dict[str, str] = json.loads(body)
    assert found["status"] == status
    return found["detail"]


NO_HTTP = 400, "HTTP/1.1"
LARGE = 431, "more than 32,768 bytes"


@pytest.mark.parametrize(
    ("sent", "refusal"),
    [
        (b"\0\0\0\0", NO_HTTP),
        (b"GET / HTTP/9.9\r\n\r\n", NO_HTTP),
        (b"GET /\xff HTTP/1.1\r\n\r\n", NO_HTTP),
        (b"GET http://[ HTTP/1.1\r\n\r\n", NO_HTTP),
        (b"GET /?q=" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", LARGE),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 40_000 + b"\r\n\r\n", LARGE),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * 40_000, LARGE),  # never complete
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 7_000, LARGE),
        (SEARCH[:-2], (408, "not complete")),
        (
            b"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n",
            (405, "CONNECT: this server is no proxy"),
        ),
    ],
)
def test_what_is_refused_is_a_problem(address: str, sent: bytes, refusal: tuple[int, str]) -> None:
    status, detail = refusal
    assert detail in problem(exchanged(address, sent), status)
    metrics = httpx.get(f"{address}/metrics", timeout=60).text
    assert f'visualsparta_connections_refused_total{{code="{status}"}} 1.0\n' in metrics


@pytest.mark.parametrize(
    "begun", [b"GET / HTTP/1.1\r\n", SEARCH[:-2] + b"Content-Length: 1000\r\n\r\n", b"\r\n"]
)
def test_a_slow_request_is_ended(address: str, begun: bytes) -> None:
    begin = time.monotonic()
    with connect(address) as connection:
        connection.sendall(begun)
        connection.settimeout(0.05)
        raw, part = b"", b"-"
        while part and time.monotonic() - begin < 20:
            raw += part
            try:
                connection.sendall(b"A" if b"HTTP" in begun else b"\r\n")  # does not help
                part = connection.recv(65_536)
            except TimeoutError:
                part = b" "
            except ConnectionError:
                break
    assert SECONDS * 0.9 < time.monotonic() - begin < 20


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_an_idle_connection_is_closed(address: str, sent: bytes) -> None:
    begin = time.monotonic()
    assert exchanged(address, sent) == b""
    assert SECONDS * 0.9 < time.monotonic() - begin < 20


def test_a_client_that_does_not_read_is_dropped(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SECONDS", SECONDS)
    folder = shutil.copytree(photos, tmp_path / "photos")
    with (folder / "garden/one.png").open("ab") as file:
        file.truncate(50_000_000)
    with serving(Backend("sparta", FakeSearcher(), folder)) as address, connect(address) as one:
        one.sendall(SEARCH.replace(b"search?q=red", b"images/garden/one.png/file"))
        time.sleep(4 * SECONDS)
        assert len(answer(one)) < 50_000_000


def test_more_connections_than_allowed_are_refused_at_once(address: str) -> None:
    busy = [connect(address) for _ in range(5)]
    for one in busy:
        one.sendall(b"G")
    time.sleep(0.1)
    with connect(address) as connection:
        assert "too many connections" in problem(answer(connection), 503)
    for one in busy:
        one.close()
    time.sleep(0.1)
    assert httpx.get(f"{address}/livez", timeout=60).status_code == 200


def test_idle_connections_make_room_for_new_ones(address: str) -> None:
    """Whoever asks whether the server lives is answered, however many say nothing."""
    idle = [connect(address) for _ in range(12)]
    for _ in range(3):
        assert httpx.get(f"{address}/livez", timeout=60).status_code == 200
    for one in idle:
        one.close()


def test_a_body_that_proceeds_has_more_time(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PART", 1000)
    begin = time.monotonic()
    with connect(address) as connection:
        head = b"POST /v1/images/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000\r\n"
        connection.sendall(head + b"Content-Type: text/plain\r\nConnection: close\r\n\r\n")
        for _ in range(8):
            time.sleep(SECONDS / 4)
            connection.sendall(b"x" * 1000)
        assert answer(connection).startswith(b"HTTP/1.1 415 ")
    assert time.monotonic() - begin > 1.5 * SECONDS


OFFERS = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    b"Upgrade: h2c\r\nConnection: keep-alive\r\nConnection: upgrade\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
]


def ask(connection: socket.socket, count: int, *parts: bytes) -> list[str]:
    """The statuses of so many answers to what is sent on one connection."""
    for part in parts:
        connection.sendall(part)
        time.sleep(0.02)
    raw = b""
    while raw.count(b"\r\n\r\n") < count and (received := connection.recv(65_536)):
        raw += received
    return re.findall(r"HTTP/1\.1 (\d+)", raw.decode())


@pytest.mark.parametrize("offer", OFFERS, ids=["h2c", "two headers", "websocket"])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_an_offer_of_another_protocol_is_ignored(address: str, offer: bytes, chunked: bool) -> None:
    body = b'{"q": "red", "k": 1}'
    framing = b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: 20\r\n"
    head = b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    sent = b"14\r\n" + body + b"\r\n0\r\n\r\n" if chunked else body
    post = head + framing + offer + b"\r\n" + sent
    get = SEARCH[:-2] + offer + b"\r\n"
    whole = [post, get, post, SEARCH]
    taken = "411" if chunked else "200"  # bodies say their length
    assert ask(connect(address), 4, b"".join(whole)) == [taken, "200", taken, "200"]
    assert ask(connect(address), 4, *whole) == [taken, "200", taken, "200"]
    pieces = [post[:60], post[60:-30], post[-30:-7], post[-7:] + get]
    assert ask(connect(address), 2, *pieces) == [taken, "200"]
    wrong = post.replace(b'"k": 1', b'"k": 0')
    assert ask(connect(address), 2, wrong, get) == ["411" if chunked else "422", "200"]
    assert ask(connect(address), 2, head + offer + b"\r\n", get) == ["422", "200"]


def test_every_request_of_a_pipeline_may_have_an_offer(address: str) -> None:
    one = SEARCH[:-2] + OFFERS[0] + b"\r\n"
    assert ask(connect(address), 1000, 1000 * one) == ["200"] * 1000
    large = SEARCH[:-2] + OFFERS[0] + b"X: " + connections.MAX_HEAD * b"x" + b"\r\n\r\n"
    assert ask(connect(address), 2, one + large) == ["200", "431"]
