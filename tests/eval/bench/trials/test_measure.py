"""Trials at a small scale, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from eval.bench.trials import compiled
from eval.bench.trials.measure import Plan, bytes_per_posting, measure_trials
from eval.bench.trials.trial import pick_trials
from eval.commands.bench.trials import trials as command
from sparta.errors import InputError
from tests.eval.bench.query_latency.tiny import queries, source
from tests.eval.bench.trials.needs import QUICK, needs_compiler

pytestmark = needs_compiler


def test_all_is_measured(tmp_path: Path) -> None:
    given = source(60)
    given.impacts[:, 5:] *= given.impacts[:, 5:] > 200  # in an eighth of the images: lists
    plan = Plan(given, queries(given, 4), ("mixed", "drawn"), 700, 5, (1, 3), 2, tmp_path)
    chosen = pick_trials("unchanged,levels-16,order-16,list-cost-0")
    steps: list[tuple[str, int, int]] = []
    found = measure_trials(plan, chosen, QUICK, lambda *step: steps.append(step))
    assert [(one.kind, one.trial, one.k) for one in found.cases] == [
        (kind, trial.name, k) for kind in plan.kinds for trial in chosen for k in (1, 3)
    ]
    assert ("compile", 4, 4) in steps and steps[-1] == ("measure", 16, 16)
    for one in found.cases:
        assert one.mean_ratio == pytest.approx(one.tried.mean_ms / one.shipped.mean_ms)
        assert one.p99_ratio == pytest.approx(one.tried.p99_ms / one.shipped.p99_ms)
        assert one.shipped.p99_ms >= one.shipped.mean_ms > 0
        same = one.shipped.bytes_per_posting == one.tried.bytes_per_posting
        assert same == (one.trial != "levels-16")
    assert json.loads(json.dumps(found.record()))["cases"][0]["trial"] == "unchanged"
    assert found.table().row_count == 4
    layouts = {path.name for path in (tmp_path / "mixed-700-5").iterdir()}
    assert layouts == {"corpus", "columns", "columns-0.0625-0.0625-32", "columns-0.1667-16"}
    columns = plan.opened("mixed")
    files = (tmp_path / "mixed-700-5" / "columns").glob("*.npy")
    headers = 128 * len(columns.columns)
    size = sum(path.stat().st_size for path in files) - headers
    postings = columns.document_frequencies.sum()
    assert bytes_per_posting(columns) == pytest.approx(size / postings)


def test_the_command(drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "package_flags", lambda: QUICK)
    app = typer.Typer()
    app.command()(command)
    captions, out = tmp_path / "captions.txt", tmp_path / "found.json"
    captions.write_text("red\nblue things\n", encoding="utf-8")
    arguments = [str(drawings), "--queries", str(captions), "--work", str(tmp_path / "work")]
    arguments += ["--images", "300", "--kind", "mixed", "--trials", "unchanged"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["cases"][0]["trial"] == "unchanged"
    refused = CliRunner().invoke(app, [*arguments, "--trials", "odd"])
    assert isinstance(refused.exception, InputError)


def test_without_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "ROOT", tmp_path)
    with pytest.raises(InputError, match="run them in a checkout"):
        compiled.compiled(pick_trials("batch-8")[0], tmp_path, QUICK)
