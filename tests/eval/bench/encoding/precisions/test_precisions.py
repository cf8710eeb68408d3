"""One model in every runtime and precision: the same scores, nearly; figures of what was run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from eval.bench.encoding.precisions.int8 import LinearTerms, QuantisedLinear
from eval.bench.encoding.precisions.measure import (
    DEFAULT,
    PrecisionPlan,
    measure_precisions,
)
from eval.bench.encoding.precisions.results import PrecisionFigures, ScorerFigures
from eval.bench.encoding.precisions.scorers import OpenedModel
from eval.pruning.measure import measure_pruning
from sparta.captions.read import CaptionedPhoto
from sparta.command_line import cli
from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.inference.runtime import has_bfloat16
from sparta.metrics import Recall
from sparta.tokenizer import WordPieceTokenizer
from sparta.visualsparta.image_terms import ImageTerms
from sparta.visualsparta.padding import ImagePadder
from tests.indexer.tiny import save_model, without_labels

NAMES = ["torch float32", "torch bfloat16", "torch int8", "OpenVINO float32"]
NAMES += ["OpenVINO bfloat16"] * has_bfloat16() + ["OpenVINO int8"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tokenizer: WordPieceTokenizer) -> Path:
    folder = tmp_path_factory.mktemp("without-labels")
    captions = ["two dogs", "the red ball"]
    return without_labels(save_model(folder, tokenizer, 2, ["cat"], captions=captions))


@pytest.fixture(scope="module")
def store(views: list[FeatureStore]) -> FeatureStore:
    return views[0]


def test_every_scorer_gives_nearly_the_scores_of_float32(
    store: FeatureStore, model: Path, tmp_path: Path
) -> None:
    opened = OpenedModel.open(store, str(model), range(len(store)))
    scorers = opened.scorers(tmp_path)
    assert list(scorers) == NAMES
    padder = ImagePadder.of(opened.tokenizer, opened.files.config)
    images = padder.pad([store[row] for row in range(12)])
    wanted = opened.tokenizer.indexable & opened.plain.trained_terms
    right = opened.plain.term_scores(images, wanted)
    for name, scorer in scorers.items():
        found = scorer.term_scores(images, wanted)
        error = np.abs(found.scores - right.scores).max()
        assert error < (1e-4 if "float32" in name else 0.1 * right.scores.max()), name
        assert (error > 0) == (name != "torch float32"), name
        assert not found.scores[:, ~wanted].any()
        assert (found.positions == right.positions).mean() > 0.8
        assert scorer.fingerprint == opened.plain.fingerprint


def test_layers_match_the_vocabulary_as_the_model_does(store: FeatureStore, model: Path) -> None:
    opened = OpenedModel.open(store, str(model), range(3))
    terms = torch.from_numpy(opened.terms)
    modules = [kind(opened.plain.model, terms).eval() for kind in (ImageTerms, LinearTerms)]
    with torch.inference_mode():
        expected, found = (module(*opened.examples[0]) for module in modules)
    torch.testing.assert_close(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_a_quantised_layer_rounds_weights_and_inputs() -> None:
    torch.manual_seed(0)
    plain = nn.Linear(6, 4)
    layer = QuantisedLinear(plain)
    values = torch.randn(5, 6)
    torch.testing.assert_close(layer(values), plain(values))
    layer.watches = False
    step = (values.max() - values.min()) / 255
    steps = plain.weight.abs().amax(1, keepdim=True) / 64
    zero = (-values.min() / step).round()
    rounded = ((values / step + zero).round().clamp(0, 255) - zero) * step
    expected = rounded @ ((plain.weight / steps).round() * steps).T + plain.bias
    torch.testing.assert_close(layer(values), expected, atol=1e-4, rtol=1e-4)


def test_recall_is_that_of_the_study_of_pruning(
    store: FeatureStore, model: Path, captioned: list[CaptionedPhoto], tmp_path: Path
) -> None:
    steps: list[tuple[object, ...]] = []
    plan = PrecisionPlan(store, str(model), 5, 2, captioned[::-1], tmp_path)
    found = measure_precisions(plan, lambda *step: steps.append(step))
    assert [own.name for own in found.scorers] == NAMES
    study = measure_pruning([store], [model], captioned, [DEFAULT], exact=True, device="cpu")
    recalls = {own.name: own.recall for own in found.scorers}
    assert recalls["torch float32"] == recalls["OpenVINO float32"] == study.rows[1].recall
    total = 3 * len(NAMES)
    assert ("turns", total, total) in steps and steps[-1] == ("recall", *2 * (len(NAMES),))
    for own in found.scorers:
        assert len(own.images_per_second) == len(own.processor_ms) == 2
        assert min(*own.images_per_second, *own.processor_ms) > 0


def test_scorers_are_compared_turn_by_turn() -> None:
    slow = ScorerFigures("a", [10.0, 20.0, 30.0], [9.0, 9.0, 9.0], Recall(20, 50, 60, 5))
    fast = ScorerFigures("b", [20.0, 50.0, 30.0], [4.0, 5.0, 6.0], Recall(20.25, 49.5, 60, 5))
    found = PrecisionFigures("photos", 64, [slow, fast])
    assert (found.times_the_first(fast), found.points_lost(fast)) == (2.0, 0.5)
    record = found.record()
    assert json.loads(json.dumps(record)) == record
    assert record["scorers"][1]["median_images_per_second"] == 30.0
    assert record["scorers"][1]["recall"]["at_5"] == 49.5
    unknown = ScorerFigures("c", [1.0] * 3, [1.0] * 3, None)
    assert found.points_lost(unknown) is None


def test_the_command_writes_what_it_shows(
    store: FeatureStore, model: Path, captions_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "precisions.json"
    arguments = ["bench", "precisions", str(store.folder), "--model", str(model)]
    arguments += ["--images", "4", "--turns", "1", "--out", str(out)]
    run = CliRunner().invoke(cli, [*arguments, "--captions", str(captions_file), "--json"])
    assert run.exit_code == 0, run.output
    written = json.loads(out.read_text())
    assert [own["name"] for own in written["scorers"]] == NAMES
    assert written["scorers"][0]["points_lost"] == 0.0 and written["cores"] > 0
    run = CliRunner().invoke(cli, arguments)
    assert run.exit_code == 0 and "OpenVINO int8" in run.stdout
    assert json.loads(out.read_text())["scorers"][0]["recall"] is None
    run = CliRunner().invoke(cli, [*arguments, "--images", "99"])
    assert isinstance(run.exception, InputError) and "--images 99" in str(run.exception)


def test_models_that_openvino_does_not_run_are_refused(
    store: FeatureStore, models: list[Path]
) -> None:
    with pytest.raises(InputError, match="runs in torch alone"):
        OpenedModel.open(store, str(models[0]), range(3))
