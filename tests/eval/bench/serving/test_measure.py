"""Servers under load, small ones."""

import json
import re
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from eval.bench.serving import measure as measuring
from eval.bench.serving.enlarged_index import enlarge_index
from eval.bench.serving.measure import (
    Served,
    ServeSetting,
    UnderLoad,
    measure_serving,
    serve_settings,
)
from eval.bench.serving.wrk import ERRORS, Load
from eval.commands.bench.serve import serve
from indexer.search.open import open_index
from sparta.errors import InputError
from tests.eval.bench.serving.needs import needs_wrk


def load(connections: int, **errors: int) -> Load:
    counts = dict.fromkeys(ERRORS, 0) | errors
    return Load(connections, 300, 2.0, 4.0, 3.5, 9.0, 20.0, counts, 0.1, 900.0)


def test_the_socket_is_what_the_parts_leave_of_one_connection() -> None:
    runs = [
        Served(ServeSetting("columns", 2), load(1), 0.3),
        Served(ServeSetting("lucene", 1), load(8), 1),
    ]
    parts = {"search": 1.0, "framework": 0.5}
    assert measuring._socket("columns", parts, runs) == {}
    assert measuring._socket("lucene", parts, runs) == {}
    runs.append(Served(ServeSetting("lucene", 1), load(1), 1))
    assert measuring._socket("lucene", parts, runs) == {"socket": 2.0}


def test_failures_of_all_runs_add_up_and_show() -> None:
    runs = [
        Served(ServeSetting("columns", 1), load(1, status=3), 0.25),
        Served(ServeSetting("columns", 1), load(32, read=1, timeout=2), 0.25),
    ]
    found = UnderLoad(5, runs, {"columns": {"search": 0.125}})
    assert found.failed == 6
    assert found.record()["runs"][1]["errors"]["timeout"] == 2
    assert found.record()["runs"][0]["requests_per_second"] == 150
    console = Console(width=80)
    with console.capture() as shown:
        console.print(found.table())
    first = "columns 1 1 150 3.50 9.00 20.00 0.25 3"
    assert first in [" ".join(line.split()) for line in shown.get().splitlines()]
    assert "columns: search 0.125" in shown.get()


@needs_wrk
def test_a_server_answers_all_without_errors(
    drawings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "WARM_UP", 1)
    setting, bare = ServeSetting("columns", 1), ServeSetting("bare", 1)
    steps: list[tuple[object, ...]] = []
    settings = serve_settings("columns,bare", [1])
    assert settings == [setting, bare]
    found = measure_serving(
        drawings, ["red", "blue things", "%"], settings, [1, 4], 1, 2, lambda *s: steps.append(s)
    )
    assert [(run.setting, run.load.connections) for run in found.runs] == [
        (setting, 1),
        (setting, 4),
        (bare, 1),
        (bare, 4),
    ]
    assert found.failed == 0
    assert all(run.load.requests > 10 and run.server_ms > 0 for run in found.runs)
    assert found.images == 5
    assert steps == [("load", number, 4) for number in (1, 2, 3, 4)]
    sizes = [run.load.answer_bytes for run in found.runs]
    assert sizes[2:] == [pytest.approx(sizes[1], abs=40)] * 2
    assert "socket" in json.loads(json.dumps(found.record()))["parts_ms"]["columns"]


def test_the_bare_route_needs_an_engine_before_it() -> None:
    with pytest.raises(InputError, match="bare comes after an engine"):
        serve_settings("bare", [1])
    assert serve_settings("columns,bare", [1, 2])[2:] == [ServeSetting("bare", 1)]


def test_an_enlarged_index_answers_like_its_images(drawings: Path, tmp_path: Path) -> None:
    steps: list[tuple[object, ...]] = []
    enlarge_index(drawings, tmp_path / "large", 40, lambda *step: steps.append(step))
    searcher = open_index(tmp_path / "large")
    assert len(searcher) == 40
    assert steps[-1] == ("write", 40, 40)
    found = searcher.search("blue", 100)
    searcher.close()
    assert 10 < len(found.hits) < 40  # three of the five drawings have something blue
    assert {hit.metadata["width"] for hit in found.hits} == {500}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "apt-get install wrk"),
        (["--connections", "8,none"], "--connections: 'none' is not a number from 1"),
        (["--workers", "0"], "--workers: '0' is not a number from 1"),
        (["--out", "nowhere/serve.json"], "--out nowhere/serve.json must be a .json file"),
    ],
)
def test_the_command_says_what_it_needs(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "queries.txt").write_text("red\nblue\n")
    app = typer.Typer()
    app.command()(serve)
    arguments = [str(tmp_path), "--queries", str(tmp_path / "queries.txt"), *options]
    with pytest.raises(InputError, match=re.escape(said)):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
