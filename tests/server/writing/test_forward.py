"""Requests that are passed on to a writer, and what happens when it does not answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingMixIn, UnixStreamServer
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest
from fastapi import Request, Response
from fastapi.testclient import TestClient

from server.app import create_app
from server.backends import Backend, Backends
from server.monitoring.metrics import WriterCounts
from server.routes import writes
from server.schemas import DeleteAnswer
from server.security.keys import Scope
from server.writing import forward as module
from server.writing.forward import NOT_OPEN, Board, Forwarder, WriterAddress
from tests.server.apps import client_of, make_key, settings
from tests.server.fake import FakeSearcher
from tests.server.security.test_callers import WRITES


class Stub(ThreadingMixIn, UnixStreamServer):
    """A writer that keeps what it is sent, and answers with a text."""

    daemon_threads = True
    answer = b""
    received = b""


class Handler(StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Stub)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.rfile.readline()
        sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        body = self.rfile.read(int(sizes[0].split(b":")[1])) if sizes else b""
        self.server.received = head + body
        self.wfile.write(self.server.answer)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with TemporaryDirectory() as folder, Stub(f"{folder}/socket", Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def board() -> Board:
    return Board(2)


def client_with(
    file: Path, scope: Scope | None = "write", forwarder: Forwarder | None = None
) -> TestClient:
    """A client with a key of some scope, of a server that passes writes on or has no writer."""
    headers = {"Authorization": f"Bearer {make_key(file, scope)}"} if scope else {}
    backends = Backends([Backend("sparta", FakeSearcher())])
    app = create_app(backends, settings(keys=file), forwarder=forwarder)
    return client_of(app, headers=headers)


@pytest.fixture
def client(stub: Stub, board: Board, file: Path) -> Iterator[TestClient]:
    forwarder = Forwarder(WriterAddress(str(stub.server_address), board))
    with client_with(file, forwarder=forwarder) as client:
        yield client


def answered(body: bytes, *headers: bytes) -> bytes:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: application/json", *headers]
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])


def test_a_photo_and_its_id_arrive_as_they_were_sent(client: TestClient, stub: Stub) -> None:
    stub.answer = answered(b'{"a":1}')
    response = client.put(
        "/v1/images/a b/%2E%2E?refresh=none", content=b"photo", headers={"Content-Type": "image/x"}
    )
    assert response.json() == {"a": 1}
    head, _, body = stub.received.partition(b"\r\n\r\n")
    assert head.startswith(b"PUT /v1/images/a%20b%2F%2E%2E?refresh=none HTTP/1.1")
    assert b"content-type: image/x" in head
    assert b"authorization" not in head.lower()
    assert body == b"photo"


@pytest.mark.parametrize(
    ("commit", "place", "problem"),
    [
        (7, 3, None),
        (6, 3, "saved, but not every worker shows it"),
        (7, 4, "was replaced while it was written to: send the change again"),
    ],
)
def test_the_answer_waits_for_every_worker(
    client: TestClient,
    stub: Stub,
    board: Board,
    monkeypatch: pytest.MonkeyPatch,
    commit: int,
    place: int,
    problem: str | None,
) -> None:
    monkeypatch.setattr(module, "SHOWN_WITHIN", 0.05)
    stub.answer = answered(b"{}", b"X-Commit: 7", b"X-Place: 3")
    board.show(0, 7, 3)
    board.show(1, commit, place)
    response = client.delete("/v1/images/a")
    assert response.status_code == (503 if problem else 200)
    assert problem is None or problem in response.json()["detail"]


def test_a_writer_that_ends_is_told(client: TestClient, stub: Stub) -> None:
    stub.answer = b""
    response = client.patch("/v1/images/a", json={"b": 1})
    assert response.status_code == 503
    assert "whether the change is saved is unknown" in response.json()["detail"]


class Counting(Forwarder):
    """Says that it has deleted every id but "no", and may stop the server then."""

    def __init__(self, stop_after: int = 99) -> None:
        super().__init__()
        self.parts: list[tuple[list[str], str]] = []
        self._stop_after = stop_after

    async def send(
        self, request: Request, path: str, refresh: Any, body: bytes | None = None
    ) -> Response:
        assert path == "delete" and body is not None
        ids = json.loads(body)
        self.parts.append((ids, refresh))
        request.app.state.stopping = len(self.parts) == self._stop_after
        missing = [one for one in ids if one == "no"]
        version = "v.7" if refresh == "wait" else None
        answer = DeleteAnswer(
            deleted=len(ids) - len(missing), missing=missing, index_version=version
        )
        return Response(answer.model_dump_json(), media_type="application/json")


@pytest.mark.parametrize("stop_after", [99, 2])
def test_many_are_deleted_in_parts(
    file: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """Between them others write, and the server may stop."""
    monkeypatch.setattr(writes, "DELETED_AT_ONCE", 3)
    forwarder = Counting(stop_after)
    with client_with(file, forwarder=forwarder) as client:
        ids = ["a", "b", "no", "a", "c", "d", "e", "f"]
        answer = client.post("/v1/images/delete", json={"ids": ids})
    if stop_after == 2:
        assert answer.status_code == 503 and "stopping" in answer.json()["detail"]
        assert len(forwarder.parts) == 2
    else:
        assert answer.json() == {"deleted": 6, "missing": ["no"], "index_version": "v.7"}
        sent = [["a", "b", "no"], ["c", "d", "e"], ["f"]]
        assert forwarder.parts == [*zip(sent, ["none", "none", "wait"], strict=True)]


@pytest.mark.parametrize("scope", ["search", "metrics", None])
def test_writing_needs_its_scope(file: Path, scope: Any) -> None:
    with client_with(file, scope) as client:
        for method, path in WRITES:
            response = client.request(method, path, json={"ids": []})
            assert response.status_code == (403 if scope else 401)


# ---- what the processes of a server tell each other ----------------------------------------------


def test_a_commit_is_not_shown_by_a_worker_that_shows_another_index() -> None:
    board = Board(2)
    assert board.is_shown(7, 3)  # nobody answers anything yet
    board.show(0, 7, 3)
    board.show(1, 6, 3)
    assert not board.is_shown(7, 3)
    board.show(1, 6, 4)
    assert not board.is_shown(7, 3) and not board.is_replaced(7, 3)  # it has not looked yet
    board.show(1, 7, 4)
    assert not board.is_shown(7, 3) and board.is_replaced(7, 3)
    board.show(1, 8, 3)
    assert board.is_shown(7, 3) and not board.is_replaced(7, 3)
    board.show(1, NOT_OPEN)
    assert board.is_shown(7, 3) and not board.is_replaced(7, 3)


def _commit(board: Board) -> None:
    board.count(commits=1, commit_seconds=0.5)
    board.count(commits=1, images_deleted=3)
    for number in range(1, 5):
        assert board.committed() == number
    board.show(0, 4)


def test_processes_share_it() -> None:
    board = Board(1)
    assert (board.commit, board.counts) == (0, WriterCounts())
    process = get_context("spawn").Process(target=_commit, args=(board,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert (board.commit, board.counts) == (4, WriterCounts(2, 0.5, images_deleted=3))
    assert board.is_shown(4, 0) and not board.is_shown(5, 0)
