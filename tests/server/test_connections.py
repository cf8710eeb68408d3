"""Connections of clients that are slow, idle, too many, or do not speak HTTP."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit

import httpx
import pytest

from server import connections
from server.backends import Backend
from server.security.guards import SECURITY_HEADERS
from tests.needs import linux
from tests.server.apps import make_certificate, serving
from tests.server.fake import FakeSearcher
from tests.server.served import Slow, served, workers_of

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


# ---- places, which the address with most of them gives up ----------------------------------------


def from_(host: str, address: str, sent: bytes = b"") -> socket.socket:
    """A connection from one of this machine's addresses, on which something was sent."""
    url = urlsplit(address)
    target = (str(url.hostname), url.port or 80)
    connection = socket.create_connection(target, timeout=20, source_address=(host, 0))
    connection.sendall(sent)
    return connection


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        connection.settimeout(20)


def is_answered(connection: socket.socket) -> bool:
    connection.sendall(SEARCH)
    return connection.recv(65_536).startswith(b"HTTP/1.1 200 ")


HALF = SEARCH[:-2]
BODY = SEARCH.replace(b"GET", b"POST")[:-2] + b"Content-Length: 9\r\n\r\n"
BEGUN = {"silent": b"", "blank": b"\r\n", "head": HALF, "body": BODY}


@pytest.mark.parametrize("begun", BEGUN.values(), ids=BEGUN)
def test_one_address_keeps_nobody_else_out(address: str, begun: bytes) -> None:
    kept = from_("127.0.0.2", address)
    assert is_answered(kept)
    many = [from_("127.0.0.1", address, begun) for _ in range(9)]
    for number in range(3):
        with from_(f"127.0.0.{3 + number}", address) as other:
            assert is_answered(other)
        assert is_answered(kept)
    time.sleep(0.1)
    shown = [is_open(one) for one in many]
    assert shown == sorted(shown), "the oldest ones give way"
    assert not shown[0] and shown[-1]


def test_an_overdue_head_gives_way_before_what_is_idle(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.1)
    kept, second = from_("127.0.0.1", address), from_("127.0.0.1", address)
    assert is_answered(kept) and is_answered(second)
    heads = [from_("127.0.0.1", address, HALF) for _ in range(3)]
    time.sleep(0.2)
    assert is_answered(from_("127.0.0.1", address))
    time.sleep(0.1)
    assert [is_open(one) for one in (kept, second, *heads)] == [True, True, False, True, True]


def test_many_addresses_keep_nobody_out(address: str) -> None:
    many = [from_(f"127.0.1.{number}", address, HALF) for number in range(1, 12)]
    with from_("127.0.0.2", address) as other:
        assert is_answered(other)
    assert sum(map(is_open, many)) <= 5


def test_handshakes_of_tls_that_never_end_keep_nobody_out(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    backend = Backend("sparta", FakeSearcher(quick=True), photos)
    with serving(backend, certificate=make_certificate(tmp_path)) as address:
        many = [from_("127.0.0.1", address, sent) for sent in (b"", b"\x16\x03\x01") * 6]
        transport = httpx.HTTPTransport(verify=False, local_address="127.0.0.2")
        with httpx.Client(transport=transport, timeout=20) as client:
            for _ in range(3):
                assert client.get(f"{address}/livez").status_code == 200
                many.append(from_("127.0.0.1", address))
        time.sleep(0.1)
        assert sum(map(is_open, many)) <= 5


def test_a_proxy_stands_for_many_clients(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    backend = Backend("sparta", FakeSearcher(quick=True), photos)
    proxies = ["127.0.0.9", "::ffff:127.0.0.8"]
    with serving(backend, host="::", trusted_proxies=proxies) as address:
        kept = [from_(f"127.0.0.{host}", address, HALF) for host in (8, 9, 9)]
        others = [from_("127.0.0.1", address) for _ in range(8)]
        time.sleep(0.1)
        assert all(map(is_open, kept)) and sum(map(is_open, others)) == 2
        for one in kept:
            one.sendall(b"X-Forwarded-For: 1.2.3.4\r\n\r\n")
            assert one.recv(65_536).startswith(b"HTTP/1.1 401 ")


def test_what_is_answered_is_never_cut(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with serving(Backend("sparta", Slow(), photos)) as address:
        busy = [from_("127.0.0.1", address, SEARCH.replace(b"red", b"slow")) for _ in range(5)]
        time.sleep(0.2)
        with connect(address) as connection:
            assert "too many connections" in problem(answer(connection), 503)
        for one in busy:
            assert one.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert httpx.get(f"{address}/livez", timeout=60).status_code == 200


def test_who_reads_nothing_gives_way_when_nobody_else_does(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    monkeypatch.setattr(connections, "PATIENCE", 0.3)
    folder = shutil.copytree(photos, tmp_path / "photos")
    with (folder / "garden/one.png").open("ab") as file:
        file.truncate(50_000_000)
    photo = SEARCH.replace(b"search?q=red", b"images/garden/one.png/file")
    with serving(Backend("sparta", FakeSearcher(quick=True), folder)) as address:
        stalled = [from_("127.0.0.1", address, photo) for _ in range(3)]
        time.sleep(0.2)
        with connect(address) as early:
            assert "too many connections" in problem(answer(early), 503)
        time.sleep(0.4)
        with from_("127.0.0.2", address) as other:
            assert is_answered(other)
        for one in stalled:
            one.close()


# ---- descriptors ---------------------------------------------------------------------------------


@linux  # where limits of another process can be set
@pytest.mark.parametrize("workers", ["1", "2"])
def test_few_descriptors(drawings: Path, workers: str) -> None:
    with (
        TemporaryFile() as printed,
        served(drawings, "--workers", workers, output=printed) as (address, pid),
    ):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        assert soft == hard
        serving = [pid] if workers == "1" else workers_of(pid)[:2]

        def limit(count: int) -> None:
            for one in serving:
                resource.prlimit(one, resource.RLIMIT_NOFILE, (count, hard))

        limit(128)
        silent = [connect(address) for _ in range(300)]
        for _ in range(3):
            assert httpx.get(f"{address}/livez", timeout=20).status_code == 200
        limit(4)  # fewer than are open: none can be accepted
        waiting = [connect(address) for _ in range(50)]
        time.sleep(0.5)
        limit(128)
        assert httpx.get(f"{address}/livez", timeout=20).status_code == 200
        for one in [*silent, *waiting]:
            one.close()
        text = os.pread(printed.fileno(), 1 << 20, 0).decode()
    assert "Traceback" not in text
    assert 1 <= text.count("no connections can be accepted: Too many open files") <= int(workers)


@pytest.mark.parametrize(("hard", "told"), [(256, True), (4096, False)])
def test_the_limit_on_descriptors_is_raised(hard: int, told: bool) -> None:
    script = f"""
import resource
from server.connections import raise_descriptors
resource.setrlimit(resource.RLIMIT_NOFILE, (200, {hard}))
raise_descriptors()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == ({hard}, {hard})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("open files is 256 (ulimit -n)" in done.stderr) == told


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
