"""A comparison of collections at a small scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from eval.bench.collections.measure import _bounds, _correlations, measure_collections
from eval.commands.bench.collections import collections as command
from tests.eval.bench.query_latency.tiny import queries, source


def test_figures_of_each_collection() -> None:
    steps: list[tuple[str, int, int]] = []
    given = source(512)
    found = measure_collections(
        given, queries(given), 12, progress=lambda *step: steps.append(step)
    )
    own, copies, mixed, drawn = found.figures
    assert [one.kind for one in found.figures] == ["given", "copies", "mixed", "drawn"]
    assert steps[-1] == ("measure", 4, 4)
    assert own.frequency_error == 0 and own.correlation_r == pytest.approx(1)
    assert copies.nearest > own.nearest and mixed.nearest < copies.nearest
    assert drawn.nearest < copies.nearest
    for one in found.figures:
        assert 0 < one.terms <= 12 and one.frequency_error < 0.1
        assert min(one.tightness) > 0 and max(one.tightness) <= 1
        assert list(one.passing) == sorted(one.passing, reverse=True)
    json.dumps(found.record())
    assert found.table().row_count == 12


def test_bounds_as_a_loop_has_them() -> None:
    given = source(60)
    asked = queries(given, 5)
    places = {int(term): place for place, term in enumerate(given.terms)}
    tightness, passing = [], []
    for query in asked:
        scores = [
            sum(
                count * int(row[places[term]])
                for term, count in query.terms.items()
                if term in places
            )
            for row in given.impacts
        ]
        ratios, passed = [], []
        for first in range(0, 60, 8):
            block = given.impacts[first : first + 8]
            bound = sum(
                count * int(block[:, places[term]].max())
                for term, count in query.terms.items()
                if term in places
            )
            if bound:
                ratios.append(max(scores[first : first + 8]) / bound)
            passed.append(bound >= sorted(scores)[-10])
        tightness.append(np.mean(ratios))
        passing.append(np.mean(passed))
    found = _bounds(given.impacts, asked, places, 8)
    assert found == pytest.approx((np.mean(tightness), np.mean(passing)), abs=1e-6)


def test_correlations_are_those_of_numpy() -> None:
    given = source(200)
    pairs = np.array([[0, 1], [3, 9], [9, 20]])
    expected = [np.corrcoef(given.impacts[:, a], given.impacts[:, b])[0, 1] for a, b in pairs]
    np.testing.assert_allclose(_correlations(given.impacts, pairs), expected, atol=1e-5)


def test_the_command(drawings: Path, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(command)
    captions, out = tmp_path / "captions.txt", tmp_path / "found.json"
    captions.write_text("red\nblue things\ndark green\n", encoding="utf-8")
    arguments = [str(drawings), "--queries", str(captions), "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert len(json.loads(out.read_text())["figures"]) == 4
