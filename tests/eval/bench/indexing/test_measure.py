"""The index-building benchmark: what it builds from, and that its figures are of that index."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eval.bench.indexing import encoded_images as module
from eval.bench.indexing.encoded_images import EncodedImages, encode_store, synthetic_images
from eval.bench.indexing.measure import measure_indexing
from eval.bench.indexing.stage_costs import stage_costs
from indexer.impacts import ImpactParameters, encode_rows
from indexer.pruning import estimate_offsets
from indexer.quantisation import Quantiser
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore


@pytest.fixture(scope="module")
def made_up() -> EncodedImages:
    return synthetic_images(50, 500)


@pytest.mark.parametrize("rows", [range(0, 50), range(7, 8), range(45, 190), range(100, 132)])
def test_images_come_again_under_other_ids(made_up: EncodedImages, rows: range) -> None:
    batches = list(made_up.batches(rows))
    assert max(len(batch.images) for batch in batches) <= 32
    ids = [image.image_id for batch in batches for image in batch.images]
    assert ids == [f"{row:09d}.jpg" for row in rows]
    inputs = [own for batch in batches for own in batch.inputs]
    for row, own in zip(rows, inputs, strict=True):
        np.testing.assert_array_equal(own.boxes, made_up.images[row % 50].boxes)
    for place in (0, 1):
        parts = np.concatenate([batch.scored[place] for batch in batches])
        assert np.array_equal(parts, made_up.scored[place][[row % 50 for row in rows]])


def test_made_up_images_keep_as_many_terms_as_photos_do() -> None:
    images = synthetic_images(100)
    scores = images.scored.scores
    assert scores.shape == (100, 30_522) and int(images.allowed.sum()) == 6_740
    assert not scores[:, ~images.allowed].any() and not images.allowed[0]
    above = (scores - scores.mean(axis=0) > 0).sum(axis=1)
    assert 1_300 < above.mean() < 1_600


def test_a_store_is_encoded_by_its_model(views: list[FeatureStore], models: list[Path]) -> None:
    steps: list[tuple[object, ...]] = []
    images = encode_store(views[0].folder, str(models[0]), lambda *step: steps.append(step))
    assert steps[-1] == ("encode", 21, 21)
    assert images.scored.scores.shape == (21, len(images.tokenizer.vocabulary))
    assert [image.width for image in images.images] == [image.width for image in views[0]]
    assert images.scored.scores[:, images.allowed].any()


def test_stages_are_all_timed_and_nothing_stays(made_up: EncodedImages, tmp_path: Path) -> None:
    offset = estimate_offsets(made_up.scored.scores, "mean")
    pruning = ImpactParameters(offset, made_up.allowed, 20, Quantiser.fit(9.0, 8))
    costs = stage_costs(made_up, pruning, tmp_path, sample=40)
    assert list(costs)[:3] == ["prune", "quantise", "put in rows"]
    assert {"make text", "add to Lucene", "flush segment", "merge segments"} < set(costs)
    assert not list(tmp_path.iterdir())


def test_figures_are_of_the_index_built(made_up: EncodedImages, tmp_path: Path) -> None:
    stages: dict[str, int] = {}
    found = measure_indexing(
        made_up, 120, 5, 8, tmp_path, lambda stage, done, total: stages.update({stage: done})
    )
    whole = found.whole
    offset = estimate_offsets(made_up.scored.scores, "mean")
    parameters = ImpactParameters(offset, made_up.allowed, 5, Quantiser.fit(1.0, 8))
    postings, _ = encode_rows(made_up, range(120), parameters)
    assert whole.postings == len(postings.terms) == 120 * 5
    assert whole.segments == 1 and whole.lucene > whole.postings
    assert whole.lucene_seconds > 0
    assert 0 < whole.encode_seconds < whole.seconds
    assert 0 < whole.encode_seconds + whole.merge_seconds < whole.seconds
    assert 0 < whole.encode_seconds + whole.columns_seconds < whole.seconds
    assert (stages["encode"], stages["write"], stages["columns"]) == (120, 120, 120)
    assert not list(tmp_path.iterdir())
    record = found.record()
    assert record["whole"]["images_per_second"] == pytest.approx(120 / whole.seconds)
    assert json.loads(json.dumps(record)) == record


def test_the_command_writes_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.synthetic_images, "__defaults__", (40, 400, 0))
    out, work = tmp_path / "speed.json", tmp_path / "work"
    arguments = ["bench", "index", "--images", "50", "--top-n", "3", "--work", str(work)]
    run = CliRunner().invoke(cli, [*arguments, "--json", "--out", str(out)])
    assert run.exit_code == 0, run.output
    written = json.loads(out.read_text())
    assert written["images"] == 50 and written["top_n"] == 3 and written["cores"] > 0
    assert written["arguments"]["images"] == 50
    assert written["whole"]["postings"] == 150
    assert json.loads(run.stdout) == {key: written[key] for key in json.loads(run.stdout)}
    run = CliRunner().invoke(cli, arguments)
    assert "add to Lucene" in run.stdout and "50 images, 150 postings" in run.stdout


def test_features_and_model_go_together() -> None:
    run = CliRunner().invoke(cli, ["bench", "index", "--model", "sample"])
    assert isinstance(run.exception, InputError) and "go together" in str(run.exception)
