"""`sparta bench serve`: small servers under load, with and without a writer beside."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eval.bench import serve as module
from eval.bench.load import ERRORS, Load
from eval.bench.serve import Served, ServeSetting, UnderLoad, Written
from indexer.care.combine import split_index
from indexer.engines.open import open_index
from tests.eval.bench.test_load import needs_wrk
from tests.eval.data import refused, shown


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.txt"
    path.write_text("red\nblue things\n%\n")
    return path


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WARM_UP", 1)


def measure(index: Path, queries: Path, out: Path, *options: str) -> dict[str, Any]:
    arguments = [index, "--queries", queries, "--seconds", 1, "-k", 2, "--out", out, *options]
    shown("bench", "serve", *arguments)
    record: dict[str, Any] = json.loads(out.read_text())
    return record


@needs_wrk
def test_a_server_answers_all_without_errors(drawings: Path, queries: Path, tmp_path: Path) -> None:
    out = tmp_path / "serve.json"
    options = ["--engine", "columns", "--connections", "4,1", "--images", "40"]
    found = measure(drawings, queries, out, *options)
    assert (found["images"], found["shards"]) == (40, 1)
    runs = found["runs"]
    settings = [(run["engine"], run["workers"], run["connections"]) for run in runs]
    assert settings == [("columns", 1, 1), ("columns", 1, 4)]
    for run in runs:
        assert run["requests"] > 10 and run["server_ms"] > 0 and not any(run["errors"].values())
        assert "written_per_second" not in run
    assert out.with_suffix(".md").read_text().count("|columns") == 2


@needs_wrk
@pytest.mark.parametrize("shards", [1, 2])
def test_a_writer_beside(drawings: Path, queries: Path, tmp_path: Path, shards: int) -> None:
    index = drawings
    if shards > 1:
        index = tmp_path / "divided"
        split_index(drawings, index, shards)
    found = measure(index, queries, tmp_path / "s.json", *["--connections", "2", "--writes", "5"])
    assert (found["images"], found["shards"]) == (5, shards)
    alone, beside = found["runs"]
    assert "written_per_second" not in alone
    assert 0 < beside["written_per_second"] < 9  # five, one that is awaited, and the last
    for name in ("acknowledged", "found"):
        assert 0 < beside[f"{name}_p50_ms"] <= beside[f"{name}_p99_ms"]
    with closing(open_index(drawings)) as searcher:
        assert len(searcher) == 5


def load(connections: int, **errors: int) -> Load:
    counts = dict.fromkeys(ERRORS, 0) | errors
    return Load(connections, 300, 2.0, 4.0, 3.5, 9.0, 20.0, counts, 0.1, 900.0)


def test_failures_of_all_runs_add_up() -> None:
    written = Written([0.001, 0.003], [0.5, 0.7], 2.0)
    runs = [
        Served(ServeSetting("columns", 1), load(1, status=3), 0.25),
        Served(ServeSetting("columns", 2), load(32, read=1, timeout=2), 0.25, written),
    ]
    found = UnderLoad(5, 1, runs)
    assert found.failed == 6
    first, second = found.record()["runs"]
    assert first["requests_per_second"] == 150 and second["errors"]["timeout"] == 2
    assert second["written_per_second"] == 2
    assert second["acknowledged_p50_ms"] == pytest.approx(2)
    assert second["found_p99_ms"] == pytest.approx(698)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "apt-get install wrk"),
        (["--connections", "8,none"], "--connections: 'none' is not a number from 1"),
        (["--out", "nowhere/serve.json"], "--out nowhere/serve.json must be a .json file"),
    ],
)
def test_the_command_says_what_it_needs(
    options: list[str], said: str, tmp_path: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    refused(said, "bench", "serve", tmp_path, "--queries", queries, *options)
