"""A server as a child process, its keys, and the load generator."""

import json
import os
import shutil
import urllib.request
from pathlib import Path
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit

import pytest

from eval.bench.load import Access, drive, read_figures, search_paths, serving
from sparta.errors import InputError

needs_wrk = pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")

SAID = """Running 2s test @ http://127.0.0.1:1
  1 threads and 8 connections
Requests/sec:   2000.00

{"requests": 4000.000, "microseconds": 2000000.000, "bytes": 3600000.000, "mean": 3500.500, \
"p50": 3000.000, "p95": 9000.000, "p99": 12345.000, "connect": 1.000, "read": 2.000, \
"write": 3.000, "timeout": 4.000, "status": 5.000}
"""


def test_the_server_answers_and_is_stopped_whatever_happens(drawings: Path) -> None:
    with pytest.raises(ZeroDivisionError), serving(drawings, "--workers", "2") as server:
        with urllib.request.urlopen(f"{server.address}/v1/search?q=red") as answer:
            assert [hit["score"] for hit in json.load(answer)["hits"]] == [200, 120, 20]
        assert server.processor_seconds() > 0
        raise ZeroDivisionError
    with pytest.raises(URLError, match="refused"):
        urllib.request.urlopen(server.address)
    with pytest.raises(ChildProcessError):
        os.waitpid(server.pid, 0)


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did not start.*is not an index"), serving(tmp_path):
        pass


def test_figures_become_seconds_and_milliseconds() -> None:
    load = read_figures(SAID, 8, 0.5)
    assert (load.connections, load.requests, load.seconds, load.per_second) == (8, 4000, 2, 2000)
    assert (load.mean_ms, load.p50_ms, load.p95_ms, load.p99_ms) == (3.5005, 3, 9, 12.345)
    assert load.errors == {"connect": 1, "read": 2, "write": 3, "timeout": 4, "status": 5}
    assert (load.generator_cores, load.answer_bytes) == (0.25, 900)


@pytest.mark.parametrize("said", ["", '{"requests": 1}', "[]"])
def test_anything_else_is_no_figures(said: str) -> None:
    with pytest.raises(InputError, match="wrk's figures cannot be read"):
        read_figures(said, 1, 0)


def test_paths_say_the_query_in_full() -> None:
    queries = ["two dogs", "a + b & c?", "100% Straße 海"]
    for path, query in zip(search_paths(queries, 7), queries, strict=True):
        assert path.isascii() and " " not in path
        parts = urlsplit(path)
        assert parts.path == "/v1/search"
        assert parse_qs(parts.query) == {"q": [query], "k": ["7"]}


@needs_wrk
def test_paths_are_asked_in_turn_and_failures_counted(drawings: Path, tmp_path: Path) -> None:
    paths = tmp_path / "paths"
    paths.write_text("/v1/search?q=red\n/missing\n/missing\n")
    access = Access.create(tmp_path / "keys.json")
    limits = ["--keys", str(access.file), "--set", "rate=1000000"]
    with serving(drawings, *limits) as server:
        load = drive(server.address, paths, 1, 1, access.search)
        assert load.requests > 10
        assert load.errors["status"] == pytest.approx(load.requests * 2 / 3, abs=2)
        assert 0 < load.p50_ms <= load.p95_ms <= load.p99_ms
        assert 0 < load.generator_cores < 2
    with pytest.raises(InputError, match="wrk failed: unable to connect"):
        drive(server.address, paths, 1, 1, "k")
