"""Capped searches at a small scale: recall as counted by hand, times of every search."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eval.bench.visited import measure
from eval.bench.visited.measure import measure_visited, recall
from eval.bench.visited.results import Case
from eval.commands.bench.visited import visited as command
from indexer.columns import visited
from sparta.errors import InputError
from tests.eval.bench.query_latency.tiny import queries, source


@pytest.mark.parametrize(
    ("scores", "right", "share"),
    [
        ([9, 7, 7], [9, 7, 7], 1.0),
        ([9, 7, 5], [9, 7, 7], 2 / 3),
        ([7], [9, 7, 7, 7], 1 / 4),
        ([], [3], 0.0),
        ([], [], 1.0),
    ],
)
def test_recall(scores: list[int], right: list[int], share: float) -> None:
    assert recall(np.array(scores, np.int64), np.array(right, np.int64)) == share


def test_figures_of_a_case() -> None:
    one = Case.of("mixed", 0.5, np.arange(101) / 1000, 0.75)
    assert (one.mean_ms, one.p50_ms, one.p99_ms, one.max_ms) == pytest.approx((50, 50, 99, 100))


def test_all_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visited, "LEADERS", 1)
    monkeypatch.setattr(measure, "BLOCK", 3)
    given = source(60)
    steps: list[tuple[str, int, int]] = []
    found = measure_visited(
        given,
        queries(given, 8),
        ("mixed", "copies"),
        (1.0, 0.5, 0.01),
        1500,
        5,
        20,
        tmp_path,
        lambda *step: steps.append(step),
    )
    assert [(one.kind, one.share) for one in found.cases] == [
        (kind, share) for kind in ("mixed", "copies") for share in (1, 0.5, 0.01)
    ]
    assert steps == [("measure", 1, 2), ("measure", 2, 2)]
    for number in (0, 3):
        every, half, least = (one.recall for one in found.cases[number : number + 3])
        assert every == 1 > least > 0 and every >= half >= least
    for one in found.cases:
        assert 0 < one.p50_ms <= one.p99_ms <= one.max_ms and one.mean_ms <= one.max_ms
    assert json.loads(json.dumps(found.record()))["cases"][0]["kind"] == "mixed"
    assert found.table().row_count == 6
    assert {path.name for path in tmp_path.iterdir()} == {"mixed-1500-5", "copies-1500-5"}


def test_the_command(drawings: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    captions, out = tmp_path / "captions.txt", tmp_path / "found.json"
    captions.write_text("red\nblue things\n", encoding="utf-8")
    arguments = [str(drawings), "--queries", str(captions), "--work", str(tmp_path / "work")]
    arguments += ["--images", "300", "--kind", "mixed", "--shares", "0.5, 1"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert [one["share"] for one in json.loads(out.read_text())["cases"]] == [1, 0.5]
    for wrong in (["--kind", "odd"], ["--shares", "0.5,0"], ["--shares", "half"]):
        refused = CliRunner().invoke(app, [*arguments, *wrong])
        assert isinstance(refused.exception, InputError)
        assert f"{wrong[0]} takes" in str(refused.exception)
