"""Whole runs of dense models on a corpus that a tiny one learns in seconds."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.vse.model import VseModel
from tests.training.corpus import Corpus
from tests.training.test_fit import assert_resumes
from tests.training.vse.runs import METHODS, config
from training.fit import train
from training.vse.config import VseModelConfig
from training.vse.lightning_module import VseTraining
from training.vse.prepare import build_model


@pytest.mark.parametrize("method", METHODS)
def test_every_method_learns(corpus: Corpus, tmp_path: Path, method: str) -> None:
    result = train(config(corpus, method), tmp_path)
    # Of 30 photos chance is 18 from text to image, and about twice that the other way.
    assert next(iter(result.recall.values())) > 50
    model = VseModel.from_pretrained(result.model)
    assert model.config.feature_source is not None
    assert model.embed_texts(["a dog and the cat"]).shape == (1, 32)


def test_a_resumed_run_repeats_the_unbroken_one(corpus: Corpus, tmp_path: Path) -> None:
    assert_resumes(config(corpus, "mv-vse", epochs=3), tmp_path, VseTraining)


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_text_encoder_learns_at_its_own_rate(corpus: Corpus, minilm: Path, rate: float) -> None:
    settings = config(corpus, learning_rate=5e-4, text_rate=rate)
    settings.model = VseModelConfig(init=str(minilm), layers=1, options={"dimension": 16})
    model = build_model(settings.model, FeatureStore.open(corpus.features).source, [])
    groups = {g["lr"]: g["params"] for g in VseTraining(model, settings)._groups() if g["params"]}
    assert sorted(groups) == pytest.approx([5e-5, 5e-4] if rate else [5e-4])
    slow = {id(parameter) for lr, own in groups.items() if lr < 1e-4 for parameter in own}
    assert model.text_encoder is not None
    own = list(model.text_encoder.parameters())
    assert slow == ({id(parameter) for parameter in own} if rate else set())
    assert {parameter.requires_grad for parameter in own} == {rate > 0}


def test_a_batch_larger_than_the_data_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="batch_size: 900 is more than"):
        train(config(corpus, batch_size=900), tmp_path)


def test_a_run_gone_astray_is_stopped(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = VseTraining.training_step

    def astray(self: VseTraining, batch: Any, number: int) -> torch.Tensor:
        return step(self, batch, number) * float("nan")

    monkeypatch.setattr(VseTraining, "training_step", astray)
    with pytest.raises(InputError, match="is not finite after epoch 0"):
        train(config(corpus), tmp_path)
    assert not (tmp_path / "model").exists()
