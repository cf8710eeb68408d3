import pytest
import torch
from torch.testing import assert_close

from sparta.visualsparta.collate import ImageCollator
from tests import tiny
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.dataset import TrainingCollator, TrainingExample
from training.visualsparta.lightning_module import VisualSpartaTraining


def rates(module: VisualSpartaTraining) -> dict[str, float]:
    """Learning rate of every parameter, by name."""
    of = {id(p): group["lr"] for group in module._groups() for p in group["params"]}
    return {name: of[id(p)] for name, p in module.named_parameters() if id(p) in of}


def test_each_part_learns_at_its_rate() -> None:
    config = VisualSpartaTrainConfig(
        learning_rate=1e-4, query_learning_rate=1e-3, projection_learning_rate=1e-2
    )
    module = VisualSpartaTraining(tiny.model(), config)
    found = rates(module)
    assert found.keys() == {name for name, _ in module.named_parameters()}
    for name, rate in found.items():
        part = name.split(".")[1]
        assert rate == {"query_embedding": 1e-3, "region_projection": 1e-2}.get(part, 1e-4), name
    assert set(rates(VisualSpartaTraining(tiny.model(), VisualSpartaTrainConfig())).values()) == {
        5e-5
    }


def test_a_batch_in_parts_trains_as_one_padded_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [tiny.image(2 + 3 * i % 5, ("dog",) * (i % 3), seed=i) for i in range(7)]
    examples = [
        TrainingExample(i, image, [[6 + i, 7, 8], [20 - i]]) for i, image in enumerate(images)
    ]
    collate = TrainingCollator(ImageCollator(tiny.tokenizer(), 50, 35))
    found = []
    for size in (2, 100):
        monkeypatch.setattr("training.visualsparta.dataset.PART", size)
        batch = collate(examples)
        assert len(batch.images) == (4 if size == 2 else 1)
        torch.manual_seed(0)
        module = VisualSpartaTraining(tiny.model(), VisualSpartaTrainConfig(flops=0.1)).eval()
        module.log = lambda *_, **__: None  # type: ignore[method-assign]
        loss = module.training_step(batch, 0)
        loss.backward()
        slopes = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        found.append({"loss": loss} | slopes)
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert_close(value, found[1][name], msg=name)


def test_what_is_never_used_is_not_trained() -> None:
    found = rates(VisualSpartaTraining(tiny.model(use_labels=False), VisualSpartaTrainConfig()))
    assert not any("embeddings" in name for name in found)
    assert "model.query_embedding.weight" in found
    tied = tiny.model(use_labels=False, tie_query_embedding=True)
    found = rates(VisualSpartaTraining(tied, VisualSpartaTrainConfig()))
    assert [name for name in found if "embeddings" in name] == [
        "model.encoder.embeddings.word_embeddings.weight"
    ]


def test_frozen_query_embedding_starts_unchanged_and_trains_importance_alone() -> None:
    model = tiny.model()
    before = model.query_embedding.weight.detach().clone()
    frozen = VisualSpartaTrainConfig.model_validate({"model": {"query_embedding": "frozen"}})
    found = rates(VisualSpartaTraining(model, frozen))
    assert torch.equal(model.query_embedding.weight, before)
    trained = [name for name in found if "query_embedding" in name]
    assert trained == ["model.query_embedding.parametrizations.weight.0.importance"]
