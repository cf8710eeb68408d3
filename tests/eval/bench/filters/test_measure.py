"""A measurement of filters at a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eval.bench.filters.fields import FILTERS
from eval.bench.filters.masks import masks
from eval.bench.filters.measure import measure_filters
from eval.bench.filters.plan import FilterPlan
from eval.commands.bench.filters import filters as filters_command
from indexer.search.columns import ColumnSearcher
from sparta.errors import InputError

TEXTS = ["red", "blue things", "dark green"]


def test_all_is_measured(drawings: Path, tmp_path: Path) -> None:
    plan = FilterPlan(300, top_n=5, k=3, shares=(0.5, 0.01))
    steps: list[tuple[str, int, int]] = []
    found = measure_filters(drawings, tmp_path, TEXTS, plan, lambda *step: steps.append(step))
    record = json.loads(json.dumps(found.record()))
    assert ("describe", 300, 300) in steps and ("measure", 8, 8) in steps
    assert [(one["kind"], one["chosen"], one["share"]) for one in record["searched"]] == [
        (kind, chosen, share)
        for kind in ("copies", "mixed")
        for share in (0.5, 0.01)
        for chosen in ("at random", "alike")
    ]
    assert all(one["mean_ms"] > 0 and one["ratio"] > 0 for one in record["searched"])
    assert [one["text"] for one in record["first_uses"]] == [first for first, _ in FILTERS]
    assert 0 < record["first_uses"][0]["images"] < 300
    assert found.table().row_count == 8 + len(FILTERS)
    made = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(made) == 3
    measure_filters(drawings, tmp_path, TEXTS, plan)
    assert made == {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_images_alike_are_neighbours() -> None:
    order = np.array([3, 1, 0, 2, 5, 4], np.int32)
    found = {
        (name, share): np.flatnonzero(mask).tolist()
        for name, share, mask in masks(order, (0.5, 0.0), 0)
    }
    assert found["alike", 0.5] == [0, 2, 5] and found["alike", 0.0] == [0]
    assert len(found["at random", 0.5]) == 3 and len(found["at random", 0.0]) == 1


def test_a_wrong_answer_ends_it(
    drawings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = ColumnSearcher.search
    monkeypatch.setattr(
        ColumnSearcher, "search", lambda self, text, k=10, allowed=None, **_: search(self, text, k)
    )
    with pytest.raises(InputError, match="are not"):
        measure_filters(drawings, tmp_path, TEXTS, FilterPlan(200, ("copies",), shares=(0.01,)))


def test_the_command(drawings: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(filters_command)
    queries = tmp_path / "queries.txt"
    queries.write_text("\n".join(TEXTS))
    work, out = tmp_path / "work", tmp_path / "filters.json"
    asked = [str(drawings), "--queries", str(queries), "--work", str(work), "--images", "150"]
    result = CliRunner().invoke(app, [*asked, "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads(out.read_text())["plan"]["images"] == 150
