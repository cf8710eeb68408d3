"""All steps of a measurement at a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eval.bench.live.made import make_index
from eval.bench.live.measure import STEPS, measure_live
from eval.bench.live.plan import LivePlan
from eval.commands.bench.live import live as live_command
from sparta.errors import InputError
from sparta.progress import no_progress

TEXTS = ["red", "blue things", "dark green"]


def test_all_is_measured(drawings: Path, tmp_path: Path) -> None:
    plan = LivePlan(120, "mixed", 5, 3, 0.5, 20, 2, 30, 8)
    steps: list[tuple[str, int, int]] = []
    found = measure_live(drawings, tmp_path, TEXTS, plan, lambda *step: steps.append(step))
    record = json.loads(json.dumps(found.record()))
    assert steps[0] == ("write", 120, 120) and steps[-1] == ("measure", STEPS, STEPS)
    assert set(record["searches"]) == {
        "at rest",
        "between 20 writes/s",
        "at 20 writes/s",
        "during batches",
        "during a merge",
        "before deletions",
        "after deletions of a third",
    }
    for engines in record["searches"].values():
        assert all(
            times["count"] >= 1 and times["p99"] >= times["p50"] > 0 for times in engines.values()
        )
    for name in ("at rest", "between 20 writes/s"):
        assert record["ratios"][name]["columns"] == {"p50": 1, "p99": 1}
    beside, between = (
        found.searches[f"{name} 20 writes/s"]["lucene"] for name in ("at", "between")
    )
    assert found.ratio("at 20 writes/s", "lucene") == beside.p50 / between.p50
    assert len(record["writes"]) == 5
    assert found.writes["added at 20/s, acknowledged"].count == 10
    for name in ("in batches", "in batches beside searches"):
        assert 0 < found.rates[f"{name}, committed"] <= found.rates[f"{name}, acknowledged"]
    assert found.table().row_count == 5 + 14 + 4 + 3 + 2
    [kept] = tmp_path.iterdir()  # as built
    assert not (kept / "live").exists()


def test_two_at_once_are_refused(drawings: Path, tmp_path: Path) -> None:
    plan = LivePlan(100)
    make_index(drawings, tmp_path, plan, no_progress)
    with pytest.raises(InputError, match="written is there: another measurement runs, or remove"):
        make_index(drawings, tmp_path, plan, no_progress)


def test_the_command(drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()
    app.command()(live_command)
    queries = tmp_path / "queries.txt"
    queries.write_text("\n".join(TEXTS))
    asked = [str(drawings), "--queries", str(queries), "--work", str(tmp_path / "work"), "--json"]
    small = [
        "--images",
        "100",
        "--seconds",
        "0.1",
        "--rate",
        "10",
        "--singles",
        "1",
        "--batched",
        "5",
    ]
    result = CliRunner().invoke(app, [*asked, *small])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["plan"]["kind"] == "mixed"
    result = CliRunner().invoke(app, [*asked, "--kind", "odd"])
    assert isinstance(result.exception, InputError)
