"""Servers under load, with and without a writer; the load generator."""

import json
import os
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from indexer.engines.open import open_index
from indexer.maintenance.combine import split_index
from sparta.errors import InputError
from tests import load as module
from tests.load import drive, main, read_figures, serving, write_key


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.txt"
    path.write_text("red\nblue things\n%\n")
    return path


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WARM_UP", 1)


@pytest.fixture
def measure(
    queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    def measured(index: Path, *options: str) -> dict[str, Any]:
        words = [index, "--queries", queries, "--seconds", 1, "-k", 2, "--out", tmp_path / "s.json"]
        monkeypatch.setattr("sys.argv", ["load", *map(str, words), *options])
        assert main() == 0
        record: dict[str, Any] = json.loads((tmp_path / "s.json").read_text())
        return record

    return measured


@pytest.mark.needs("wrk")
def test_a_server_answers_all_without_errors(
    drawings: Path, measure: Callable[..., dict[str, Any]]
) -> None:
    options = ["--engine", "columns", "--connections", "4", "1", "--images", "40"]
    found = measure(drawings, *options)
    assert (found["images"], found["shards"]) == (40, 1)
    runs = found["runs"]
    settings = [(run["engine"], run["workers"], run["connections"]) for run in runs]
    assert settings == [("columns", 1, 4), ("columns", 1, 1)]
    for run in runs:
        assert run["requests"] > 10 and run["server_ms"] > 0 and not any(run["errors"].values())
        assert "written_per_second" not in run


@pytest.mark.needs("wrk")
@pytest.mark.parametrize("shards", [1, 2])
def test_a_writer_beside(
    drawings: Path, measure: Callable[..., dict[str, Any]], tmp_path: Path, shards: int
) -> None:
    index = drawings
    if shards > 1:
        index = tmp_path / "divided"
        split_index(drawings, index, shards)
    found = measure(index, "--connections", "2", "--writes", "5")
    assert (found["images"], found["shards"]) == (5, shards)
    alone, beside = found["runs"]
    assert "written_per_second" not in alone
    assert 0 < beside["written_per_second"] < 9  # five, one that is awaited, and the last
    for name in ("acknowledged", "found"):
        assert 0 < beside[f"{name}_p50_ms"] <= beside[f"{name}_p99_ms"]
    with closing(open_index(drawings)) as searcher:
        assert len(searcher) == 5


# ---- a server as a child process, its keys, and the load generator -------------------------------


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


@pytest.mark.needs("wrk")
def test_paths_are_asked_in_turn_and_failures_counted(drawings: Path, tmp_path: Path) -> None:
    paths = tmp_path / "paths"
    paths.write_text("/v1/search?q=red\n/missing\n/missing\n")
    keys = tmp_path / "keys.json"
    key = write_key(keys)
    limits = ["--keys", str(keys), "--set", "rate=1000000"]
    with serving(drawings, *limits) as server:
        load = drive(server.address, paths, 1, 1, key)
        assert load.requests > 10
        assert load.errors["status"] == pytest.approx(load.requests * 2 / 3, abs=2)
        assert 0 < load.p50_ms <= load.p95_ms <= load.p99_ms
        assert 0 < load.generator_cores < 2
    with pytest.raises(InputError, match="wrk failed: unable to connect"):
        drive(server.address, paths, 1, 1, "k")
