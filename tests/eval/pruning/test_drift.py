"""Recall of indexes that were built from a part of their images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.pruning.drift import DIRECTIONS, SHARES, DriftStudy, Scores, measure_drift
from eval.recall.index_recall import measure_index_recall
from indexer.build import build_index
from indexer.drift import MEANS
from indexer.encoding.term_scores import ImageEncoder
from indexer.search.lucene import LuceneSearcher
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.features.store import FeatureStore


@pytest.fixture(scope="module")
def study(
    views: list[FeatureStore], models: list[Path], captioned: list[CaptionedPhoto]
) -> DriftStudy:
    return measure_drift(views[0], models[0], captioned, batch_size=4, device="cpu")


def test_the_whole_is_an_index(
    study: DriftStudy,
    views: list[FeatureStore],
    models: list[Path],
    captioned: list[CaptionedPhoto],
    tmp_path: Path,
) -> None:
    build_index(views[:1], models[:1], tmp_path / "index", batch_size=4, device="cpu")
    found = measure_index_recall(LuceneSearcher(tmp_path / "index"), captioned).recall
    assert study.whole == found
    assert study.images == len(views[0])
    assert len(study.rows) == len(SHARES) + 2 * DIRECTIONS * (len(SHARES) - 1)
    assert all(row.drift >= 0 for row in study.rows)
    assert "direction 3, other end" in {row.build for row in study.rows}


def test_impacts_are_those_of_an_index(
    views: list[FeatureStore], models: list[Path], tmp_path: Path
) -> None:
    build_index(views[:1], models[:1], tmp_path / "index", batch_size=4, device="cpu")
    encoder = ImageEncoder.open(views[:1], models[:1], 4, "cpu", "trained")
    scores = Scores.of(encoder)
    impacts = scores.impacts(np.arange(len(views[0])))
    means = np.load(tmp_path / "index" / MEANS)
    np.testing.assert_allclose(impacts.mean(axis=0), means[scores.terms], rtol=1e-5)


def test_command(
    study: DriftStudy,
    views: list[FeatureStore],
    models: list[Path],
    captions_file: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "drift.json"
    given = [str(views[0].folder), "--model", str(models[0]), "--captions", str(captions_file)]
    done = CliRunner().invoke(cli, ["eval", "drift", *given, "--device", "cpu", "--out", str(out)])
    assert done.exit_code == 0, done
    assert "direction 1, one end" in done.output and "100 %" in done.output
    found = json.loads(out.read_text())
    assert found["whole"] == study.record()["whole"]
    assert [row["drift"] for row in found["rows"]] == pytest.approx(
        [row.drift for row in study.rows]
    )
