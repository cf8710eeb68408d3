"""Requests that differ in their query strings alone are answered as any others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httptools
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from server.backends import Backend
from server.requests_alike import Alike
from tests.server.apps import make_key
from tests.server.fake import FakeSearcher
from tests.server.live import serving
from tests.server.test_connections import connect

HOST = b"Host: localhost\r\n"
FIRST = b"GET /v1/search?q=red HTTP/1.1\r\n" + HOST + b"\r\n"
PIECES = [
    b"GET ",
    b"/v1/search?",
    b"q=blue",
    b" HTTP/1.1",
    b"\r\n",
    b"\n",
    HOST,
    b"#",
    b" ",
    b"\xff",
]


class Read:
    """What a parser reads."""

    def __init__(self, data: bytes) -> None:
        self.url, self.headers, self.complete = b"", list[tuple[bytes, bytes]](), 0
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_message_complete(self) -> None:
        self.complete += 1


@given(
    st.sampled_from(
        [b"GET /v1/search?", b"POST /v1/search?", b"GET /v1/search", b"\r\nGET /v1/x?"]
    ),
    st.binary(max_size=4) | st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join),
    st.sampled_from([b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"\r\n", b""]),
    st.sampled_from([HOST + b"\r\n", HOST + b"\r\n\r\n", HOST, HOST + b"A: b\r\n\r\n"]),
)
@example(b"GET /v1/search?", b"q=blue&k=3", b" HTTP/1.1\r\n", HOST + b"\r\n")
def test_what_is_alike_is_what_the_parser_reads(
    start: bytes, query: bytes, version: bytes, rest: bytes
) -> None:
    scope = {"path": "/v1/search", "query_string": b"q=red"}
    alike = Alike.to(FIRST, scope)
    assert alike is not None
    data = start + query + version + rest
    found = alike.scope_of(data)
    if found is not None:
        read = Read(data)
        assert found == {**scope, "query_string": read.url.partition(b"?")[2]}
        assert read.url.startswith(b"/v1/search?") and read.parser.get_method() == b"GET"
        assert read.headers == Read(FIRST).headers and read.complete == 1
        assert read.parser.get_http_version() == "1.1" and read.parser.should_keep_alive()


@pytest.mark.parametrize("data", [b"\r\n" + FIRST, FIRST.replace(b"red", b"r d"), FIRST[1:], b""])
def test_to_an_unusual_request_none_is_alike(data: bytes) -> None:
    assert Alike.to(data, {}) is None


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys") / "keys.json"


@pytest.fixture(scope="module")
def key(keys: Path) -> bytes:
    return make_key(keys).encode()


@pytest.fixture(scope="module")
def address(photos: Path, keys: Path, key: bytes) -> Iterator[str]:
    backend = Backend("sparta", FakeSearcher(), photos, quick=True)
    with serving(backend, keys=keys, rate=0) as address:
        yield address


def ask(address: str, requests: list[bytes]) -> list[bytes]:
    """Send requests one by one on a connection; their answers, without what differs each time."""
    answers = []
    with connect(address) as connection, connection.makefile("rb") as received:
        for request in requests:
            connection.sendall(request)
            head = b""
            while (line := received.readline()) != b"\r\n":
                assert line, f"the server closed after {request!r}"
                head += line
            lines = {line.lower() for line in head.splitlines() if not line.startswith(b"date")}
            size = next(int(line[15:]) for line in lines if line.startswith(b"content-length"))
            body = json.loads(received.read(size))
            body.pop("request_id", None)
            answers.append(json.dumps([sorted(map(bytes.decode, lines)), body]).encode())
    return answers


ASKED = """
q=red q=blue+green&k=2 q=red%5E0 q=qwx k=3 q=red&k=0 q=red&sort=width q=red#a q=r%C3%A9d
q=red&filter=width:200..300 q=red&backend=none
"""
TARGETS = st.sampled_from(["", *ASKED.split()])
KINDS = st.sampled_from(
    [b"", b"", b"X-A: b\r\n", b"Accept-Encoding: br\r\n", b"Content-Length: 0\r\n"]
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TARGETS, KINDS, st.booleans()), min_size=2, max_size=6))
@example([("q=red", b"", True)] * 2 + [("q=red%5E0", b"", True), ("q=blue", b"", True)])
def test_answers_equal_those_without(
    address: str, key: bytes, asked: list[tuple[str, bytes, bool]]
) -> None:
    requests = [
        b"GET /v1/search?%b HTTP/1.1\r\nHost: %b\r\nX-Request-Id: a\r\n%b%b\r\n"
        % (target.encode(), urlsplit(address).netloc.encode(), kind, own)
        for target, kind, valid in asked
        for own in [b"X-API-Key: %b\r\n" % (key if valid else b"sparta_none")]
    ]
    found = ask(address, requests)
    with patch.object(Alike, "to", lambda *_: None):
        assert found == ask(address, requests)


def test_one_that_the_application_answers_is_counted_once(photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    own = b"X-API-Key: %b\r\n" % make_key(file).encode()
    backend = Backend("sparta", FakeSearcher(), photos, quick=True)
    with serving(backend, keys=file, rate=0.4) as address:  # four at once
        targets = [b"q=red", b"q=red%5E0", b"q=red%5E0", b"q=red", b"q=red"]
        host = urlsplit(address).netloc.encode()
        start = b"GET /v1/search?%b HTTP/1.1\r\nHost: %b\r\n%b\r\n"
        answers = ask(address, [start % (target, host, own) for target in targets])
    statuses = [json.loads(one)[1].get("status", 200) for one in answers]
    assert statuses == [200, 422, 422, 200, 429]


def test_a_key_that_is_revoked_counts_from_the_next_request_on(
    photos: Path, tmp_path: Path
) -> None:
    file = tmp_path / "keys.json"
    key = make_key(file).encode()
    backend = Backend("sparta", FakeSearcher(), photos, quick=True)
    with serving(backend, keys=file) as address, connect(address) as connection:
        request = b"GET /v1/search?q=red HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %b\r\n\r\n" % key
        statuses = []
        for turn in range(4):
            if turn == 3:
                file.write_text('{"keys": []}')
            connection.sendall(request)
            statuses.append(connection.recv(65_536)[9:12])
    assert statuses == [b"200", b"200", b"200", b"401"]
