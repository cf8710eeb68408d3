"""The load generator: what it is told to ask, and what is read from its figures."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest

from eval.bench.serving.wrk import drive, find_wrk, read_figures, search_paths
from sparta.errors import InputError
from tests.eval.bench.serving.needs import needs_wrk

SAID = """Running 2s test @ http://127.0.0.1:1
  1 threads and 8 connections
Requests/sec:   2000.00

{"requests": 4000.000, "microseconds": 2000000.000, "bytes": 3600000.000, "mean": 3500.500,
"""
LAST = (
    '"p50": 3000.000, "p95": 9000.000, "p99": 12345.000, "connect": 1.000, "read": 2.000, '
    '"write": 3.000, '
    '"timeout": 4.000, "status": 5.000}\n'
)


def test_figures_become_seconds_and_milliseconds() -> None:
    load = read_figures(SAID.rstrip("\n") + " " + LAST, 8, 0.5)
    assert (load.connections, load.requests, load.seconds, load.per_second) == (8, 4000, 2, 2000)
    assert (load.mean_ms, load.p50_ms, load.p95_ms, load.p99_ms) == (3.5005, 3, 9, 12.345)
    assert load.errors == {"connect": 1, "read": 2, "write": 3, "timeout": 4, "status": 5}
    assert (load.generator_cores, load.answer_bytes) == (0.25, 900)


@pytest.mark.parametrize("said", ["", "wrk: unknown option", '{"requests": 1}', "[]", "{} 1"])
def test_anything_else_is_no_figures(said: str) -> None:
    with pytest.raises(InputError, match="wrk's figures cannot be read"):
        read_figures(said, 1, 0)


def test_paths_say_the_query_in_full() -> None:
    queries = ["two dogs", "a + b & c?", "100% Straße 海"]
    for path, query in zip(search_paths(queries, 7), queries, strict=True):
        assert path.isascii()
        assert " " not in path
        parts = urlsplit(path)
        assert parts.path == "/v1/search"
        assert parse_qs(parts.query) == {"q": [query], "k": ["7"]}


def test_without_wrk_it_is_said_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="apt-get install wrk"):
        find_wrk()


class Recorder(BaseHTTPRequestHandler):
    """Keeps the paths it is asked for; those that end with "missing" it answers with 404."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(404 if self.path.endswith("missing") else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    """Says nothing of connections that wrk breaks off when its time is over."""

    def handle_error(self, *_: object) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    Recorder.asked = []
    with Quiet(("127.0.0.1", 0), Recorder) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_wrk
def test_one_connection_asks_in_order_over_and_over(address: str, tmp_path: Path) -> None:
    paths = ["/one", "/two?q=a%20b", "/three"]
    (tmp_path / "paths").write_text("\n".join(paths) + "\n")
    load = drive(address, tmp_path / "paths", 1, 1, "k")
    assert load.requests > len(paths)
    # wrk makes one request more than it sends, the first, to look at it.
    assert Recorder.asked == [paths[(i + 1) % 3] for i in range(len(Recorder.asked))]
    assert len(Recorder.asked) - load.requests in (0, 1)
    assert set(load.errors.values()) == {0}
    assert 0 < load.p50_ms <= load.p95_ms <= load.p99_ms
    assert 0 < load.generator_cores < 2


@needs_wrk
def test_failures_are_counted(address: str, tmp_path: Path) -> None:
    (tmp_path / "paths").write_text("/there\n/missing\n")
    load = drive(address, tmp_path / "paths", 2, 1, "k")
    missing = sum(path == "/missing" for path in Recorder.asked)
    assert missing - 2 <= load.errors["status"] <= missing
    assert load.errors["status"] > 0


@needs_wrk
def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    (tmp_path / "paths").write_text("/\n")
    with pytest.raises(InputError, match="wrk failed: unable to connect"):
        drive("http://127.0.0.1:1", tmp_path / "paths", 1, 1, "k")
