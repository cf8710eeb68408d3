import math
from typing import Literal

import pytest
import torch

from tests import tiny
from training.module import learning_rate_factor
from training.visualsparta.config import TrainConfig
from training.visualsparta.lightning_module import SpartaTraining


def test_rate_rises_then_stays_or_falls() -> None:
    for step in range(100):
        rise = (step + 1) / 20
        done = (step - 20) / 80
        after = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        for schedule, value in after.items():
            expected = rise if step < 20 else value
            found = learning_rate_factor(step, 100, 0.2, schedule)  # type: ignore[arg-type]
            assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_rate_ends_at_zero_and_starts_above(schedule: Literal["linear", "cosine"]) -> None:
    assert learning_rate_factor(0, 10, 0.0, schedule) == 1
    assert learning_rate_factor(9, 10, 0.0, schedule) > 0
    assert learning_rate_factor(10, 10, 0.0, schedule) == pytest.approx(0, abs=1e-6)


def rates(module: SpartaTraining) -> dict[str, float]:
    """Learning rate of every parameter, by name."""
    of = {id(p): group["lr"] for group in module._groups() for p in group["params"]}
    return {name: of[id(p)] for name, p in module.named_parameters() if id(p) in of}


def test_each_part_learns_at_its_rate() -> None:
    config = TrainConfig(
        learning_rate=1e-4, query_learning_rate=1e-3, projection_learning_rate=1e-2
    )
    module = SpartaTraining(tiny.model(), config)
    found = rates(module)
    assert found.keys() == {name for name, _ in module.named_parameters()}
    for name, rate in found.items():
        part = name.split(".")[1]
        assert rate == {"query_embedding": 1e-3, "region_projection": 1e-2}.get(part, 1e-4), name
    assert set(rates(SpartaTraining(tiny.model(), TrainConfig())).values()) == {5e-5}


def test_what_is_never_used_is_not_trained() -> None:
    found = rates(SpartaTraining(tiny.model(use_labels=False), TrainConfig()))
    assert not any("embeddings" in name for name in found)
    assert "model.query_embedding.weight" in found
    tied = tiny.model(use_labels=False, tie_query_embedding=True)
    found = rates(SpartaTraining(tied, TrainConfig()))
    assert [name for name in found if "embeddings" in name] == [
        "model.encoder.embeddings.word_embeddings.weight"
    ]


def test_frozen_query_embedding_starts_unchanged_and_trains_importance_alone() -> None:
    model = tiny.model()
    before = model.query_embedding.weight.detach().clone()
    frozen = TrainConfig.model_validate({"model": {"query_embedding": "frozen"}})
    found = rates(SpartaTraining(model, frozen))
    assert torch.equal(model.query_embedding.weight, before)
    trained = [name for name in found if "query_embedding" in name]
    assert trained == ["model.query_embedding.parametrizations.weight.0.importance"]
