"""What asking shards costs, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from eval.bench.serving import hop
from eval.bench.serving.wrk import ERRORS, Load
from eval.commands.bench import hop as command
from indexer.manifest import is_sharded
from tests.eval.bench.serving.test_measure import load
from tests.indexer.random_postings import random_postings, write_postings
from tests.indexer.vocabulary import small_tokenizer


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    path = tmp_path / "queries.txt"
    path.write_text("dog\ntwo cats\n")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Path:
    tokenizer = small_tokenizer()
    write_postings(tmp_path / "index", [random_postings(tokenizer, 30)], tokenizer)
    return tmp_path / "index"


def run(*arguments: str) -> Any:
    import typer

    application = typer.Typer()
    application.command()(command.hop)
    return CliRunner().invoke(application, arguments)


def test_three_servers_are_loaded_in_turn(
    index: Path, queries: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[tuple[bool, bool]] = []

    @contextmanager
    def serving(folder: Path, *options: str) -> Iterator[Any]:
        served.append((is_sharded(folder), "--ray" in options))
        yield SimpleNamespace(address="http://127.0.0.1:1")

    def drive(address: str, paths: Path, connections: int, *_: Any) -> Load:
        assert "q=two+cats" in paths.read_text()
        return load(connections, **dict.fromkeys(ERRORS, 0))

    monkeypatch.setattr(hop, "serving", serving)
    monkeypatch.setattr(hop, "drive", drive)
    monkeypatch.setattr("eval.bench.serving.wrk.find_wrk", lambda: "wrk")
    out = tmp_path / "hop.json"
    found = run(str(index), "--queries", str(queries), "--connections", "1,4", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "30 images, 2 shards" in found.output
    assert served == [(False, False), (True, False), (True, True)]
    record = json.loads(out.read_text())
    assert [len(own) for own in record["loads"].values()] == [2, 2, 2]
    assert record["loads"]["one index"][1]["connections"] == 4


def test_failed_requests_make_figures_invalid(
    index: Path, queries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = hop.HopFigures(30, 2, {"one index": [load(1, status=3)]})
    monkeypatch.setattr(hop, "measure_hop", lambda *_: failed)
    monkeypatch.setattr("eval.bench.serving.wrk.find_wrk", lambda: "wrk")
    found = run(str(index), "--queries", str(queries))
    assert "3 requests failed" in str(found.exception)
