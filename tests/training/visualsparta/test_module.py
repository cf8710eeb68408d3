"""Objectives against slow ones, rates of each part, and loaders."""

import math

import pytest
import torch
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImagePadder
from tests import tiny
from tests.training.corpus import Corpus
from training.inputs import PhotoList, split_photos
from training.module import ProcessPart, check_batch_size
from training.visualsparta import prepare
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.dataset import TrainingCollator, TrainingExample
from training.visualsparta.lightning_module import (
    VisualSpartaTraining,
    flops,
    in_batch_cross_entropy,
    soft_cross_entropy,
)

# Photo 8 is shown twice: by columns 1 and 4. Photos 7 and 8 have two captions each.
QUERIES = torch.tensor([7, 8, 9, 8, 7])
COLUMNS = torch.tensor([7, 8, 9, 11, 8])


def scores(seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return (4 * torch.randn(5, 5)).requires_grad_()


def slow_objective(values: list[list[float]], with_positive: bool, smoothing: float) -> float:
    """Equation 13 with its sign turned, one query after the other."""
    losses = []
    for row, photo in zip(values, QUERIES.tolist(), strict=True):
        positive = COLUMNS.tolist().index(photo)
        negatives = [j for j, shown in enumerate(COLUMNS.tolist()) if shown != photo]
        below = [*negatives, positive] if with_positive else negatives
        log_sum = math.log(sum(math.exp(row[j]) for j in below))
        share = {j: smoothing / (len(negatives) + 1) for j in [*negatives, positive]}
        share[positive] += 1 - smoothing
        losses.append(sum(weight * (log_sum - row[j]) for j, weight in share.items()))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("with_positive", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_equation_13(with_positive: bool, smoothing: float) -> None:
    given = scores()
    found = in_batch_cross_entropy(given, QUERIES, COLUMNS, with_positive, smoothing)
    expected = slow_objective(given.tolist(), with_positive, smoothing)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_extreme_scores_stay_finite() -> None:
    given = torch.tensor([[500.0, -500.0], [500.0, 0.0]], requires_grad=True)
    loss = in_batch_cross_entropy(given, torch.arange(2), torch.arange(2))
    loss.backward()
    assert loss.item() == pytest.approx(250.0)
    assert given.grad is not None
    assert given.grad.isfinite().all()


def test_a_missing_positive_is_an_error() -> None:
    with pytest.raises(ValueError, match="lacks the photo of one"):
        in_batch_cross_entropy(scores(), QUERIES, COLUMNS + 1)


def test_a_batch_of_one_photo_has_no_negatives() -> None:
    """Without the positive the denominator of equation 13 would be empty: log 0."""
    one = torch.tensor([3, 3])
    given = torch.randn(2, 2)
    with pytest.raises(InputError, match="include_positive: false needs a second photo in every"):
        in_batch_cross_entropy(given, one, one, include_positive=False)
    assert in_batch_cross_entropy(given, one, one).isfinite()


def test_flops_is_the_sum_of_squared_means() -> None:
    torch.manual_seed(1)
    given = torch.rand(3, 7).relu()
    expected = sum((sum(row[t] for row in given.tolist()) / 3) ** 2 for t in range(7))
    assert flops(given).item() == pytest.approx(expected, rel=1e-5)


def slow_soft_cross_entropy(scores: list[list[float]], targets: list[list[float]]) -> float:
    """Mean over rows of -Σ_j p_j log q_j, p and q the softmax of targets and scores."""
    losses = []
    for row, aims in zip(scores, targets, strict=True):
        log_sum = math.log(sum(map(math.exp, row)))
        total = sum(map(math.exp, aims))
        losses.append(
            sum(math.exp(aim) / total * (log_sum - s) for s, aim in zip(row, aims, strict=True))
        )
    return sum(losses) / len(losses)


@pytest.mark.parametrize("image_to_text", [0.0, 0.3, 1.0])
def test_soft_targets_in_both_directions(image_to_text: float) -> None:
    given, targets = scores()[:3], scores(seed=1)[:3]
    means = [sum(row) / len(row) for row in given.tolist()]
    centred = [[s - mean for s in row] for row, mean in zip(given.tolist(), means, strict=True)]
    expected = (1 - image_to_text) * slow_soft_cross_entropy(given.tolist(), targets.tolist())
    turned = [list(column) for column in zip(*centred, strict=True)]
    expected += image_to_text * slow_soft_cross_entropy(turned, targets.T.tolist())
    found = soft_cross_entropy(given, targets, image_to_text)
    assert found.item() == pytest.approx(expected, rel=1e-5)


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
    collate = TrainingCollator(ImagePadder(tiny.tokenizer(), 50, 35))
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


def test_a_batch_is_a_multiple_of_the_devices() -> None:
    with pytest.raises(InputError, match="batch_size: 30 must be a multiple of the 4 devices"):
        check_batch_size(30, 90, "photos", 4)


def test_an_epoch_of_pairs_has_every_caption_once(corpus: Corpus) -> None:
    config, store = corpus.config(data={"epoch": "pairs"}), FeatureStore.open(corpus.features)
    photos, _ = split_photos(config.data, PhotoList.of([store]), 0)
    texts = [text for photo in photos for text in photo.captions]
    model = prepare.build_model(config.model, store.source, texts)
    loader = prepare.training_loader(config, [store], photos, model, ProcessPart(0, 1, 0))
    batches = list(loader)
    assert len(batches) == len(photos) * 2 / 30
    found = []
    for batch in batches:
        assert len(batch.photos) == len(batch.query_ids) == 30
        assert torch.equal(batch.photos, batch.query_photos)
        rows = zip(batch.query_photos.tolist(), batch.query_ids, batch.query_mask, strict=True)
        found += [(photo, ids[mask].tolist()) for photo, ids, mask in rows]
    expected = prepare.caption_ids(model, photos)
    assert sorted(found) == sorted((i, ids) for i, own in enumerate(expected) for ids in own)
