"""Objectives of VisualSparta against slow ones, rates, loaders, and training examples."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImagePadder
from tests import tiny
from tests.stores import write_store
from tests.training.corpus import Corpus
from training.inputs import PhotoList, split_photos
from training.module import ProcessPart, check_batch_size
from training.visualsparta.config import VisualSpartaTrainConfig
from training.visualsparta.data import (
    SPECIAL,
    CaptionedFeatures,
    TrainingCollator,
    TrainingExample,
    learn_vocabulary,
)
from training.visualsparta.module import (
    VisualSpartaTraining,
    build_model,
    caption_ids,
    flops,
    in_batch_cross_entropy,
    training_loader,
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


def test_a_batch_of_one_photo_has_no_negatives() -> None:
    """Without the positive the denominator of equation 13 would be empty: log 0."""
    one = torch.tensor([3, 3])
    given = torch.randn(2, 2)
    with pytest.raises(InputError, match="include_positive: false needs a second photo in every"):
        in_batch_cross_entropy(given, one, one, include_positive=False)
    assert in_batch_cross_entropy(given, one, one).isfinite()


def test_flops_is_the_sum_of_squared_means() -> None:
    given = torch.rand(3, 7, generator=torch.Generator().manual_seed(1))
    expected = sum((sum(row[t] for row in given.tolist()) / 3) ** 2 for t in range(7))
    assert flops(given).item() == pytest.approx(expected, rel=1e-5)


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
        monkeypatch.setattr("training.visualsparta.data.PART", size)
        batch = collate(examples)
        assert len(batch.images) == (4 if size == 2 else 1)
        torch.manual_seed(0)
        assert batch.query_photos.tolist() == batch.photos.repeat_interleave(2).tolist()
        masks = [torch.cat([part.region_mask, part.label_mask], dim=1) for part in batch.images]
        lengths = [n for mask in masks for n in mask.sum(dim=1).tolist()]
        assert lengths == sorted(lengths)  # those of similar length together
        module = VisualSpartaTraining(tiny.model(), VisualSpartaTrainConfig(flops=0.1)).eval()
        module.log = lambda *_, **__: None  # type: ignore[method-assign]
        loss = module.training_step(batch, 0)
        loss.backward()
        slopes = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
        found.append({"loss": loss} | slopes)
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        assert_close(value, found[1][name], msg=name)


def test_a_batch_is_a_multiple_of_the_devices() -> None:
    with pytest.raises(InputError, match="batch_size: 30 must be a multiple of the 4 devices"):
        check_batch_size(30, 90, "photos", 4)


# ---- training examples, and vocabularies from captions -------------------------------------------


PHOTOS = [f"p{i}.jpg" for i in range(6)]
CAPTIONS = [[[10 * i + c, 7, 8, 9] for c in range(3)] for i in range(6)]


def test_an_epoch_of_pairs_has_every_caption_once(corpus: Corpus) -> None:
    config, store = corpus.config(data={"epoch": "pairs"}), FeatureStore.open(corpus.features)
    photos, _ = split_photos(config.data, PhotoList.of([store]), 0)
    texts = [text for photo in photos for text in photo.captions]
    model = build_model(config.model, store.source, texts)
    loader = training_loader(config, [store], photos, model, ProcessPart(0, 1, 0))
    batches = list(loader)
    assert len(batches) == len(photos) * 2 / 30
    found = []
    for batch in batches:
        assert len(batch.photos) == len(batch.query_ids) == 30
        assert torch.equal(batch.photos, batch.query_photos)
        rows = zip(batch.query_photos.tolist(), batch.query_ids, batch.query_mask, strict=True)
        found += [(photo, ids[mask].tolist()) for photo, ids, mask in rows]
    expected = caption_ids(model, photos)
    assert sorted(found) == sorted((i, ids) for i, own in enumerate(expected) for ids in own)


def test_negatives_that_share_labels(corpus: Corpus, tmp_path: Path) -> None:
    plain = FeatureStore.open(corpus.features)
    images = [
        replace(image, labels=(("cat", "dog")[row % 2], "", "man"))
        for row, image in enumerate(plain)
    ]
    store = write_store(tmp_path / "labelled", plain.source, images)
    part, shares = ProcessPart(0, 1, 0), {}
    for negatives in ("random", "labels"):
        data = {"negatives": negatives, "features": [store.folder], "validation_photos": 0}
        config = corpus.config(data=data, batch_size=10)
        photos, _ = split_photos(config.data, PhotoList.of([store]), 0)
        model = build_model(config.model, store.source, ["a dog"])
        loader = training_loader(config, [store], photos, model, part)
        cats = np.array([sum(int(photo) % 2 == 0 for photo in batch.photos) for batch in loader])
        shares[negatives] = float(np.maximum(cats, 10 - cats).mean()) / 10
    assert shares["labels"] > shares["random"] + 0.15
    with pytest.raises(InputError, match="needs features with labels"):
        training_loader(config, [plain], photos, model, part)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    """Two stores of six photos; the second has one more photo, and other rows for the same ones."""
    folder = tmp_path_factory.mktemp("stores")
    stores = []
    for store in range(2):
        names = ["a.jpg", *PHOTOS] if store else PHOTOS
        shown = [
            replace(tiny.image(4, ("dog",), seed=100 * store + i), image_id=name)
            for i, name in enumerate(names)
        ]
        stores.append(write_store(folder / str(store), tiny.source(), shown))
    return stores


def dataset(stores: Sequence[FeatureStore], seed: int = 0, per_photo: int = 2) -> CaptionedFeatures:
    return CaptionedFeatures(stores, PHOTOS, CAPTIONS, seed, per_photo, 0.3, 0.3)


def drawn(example: TrainingExample) -> tuple[object, ...]:
    return (example.photo, example.image.features.tobytes(), example.captions)


def test_a_draw_depends_on_seed_epoch_and_photo_alone(stores: list[FeatureStore]) -> None:
    keys = [(epoch, photo) for epoch in range(4) for photo in range(6)]
    first, again, other = dataset(stores), dataset(stores), dataset(stores, seed=1)
    expected = {key: drawn(first[key]) for key in keys}
    np.random.seed(5)
    torch.manual_seed(5)
    assert {key: drawn(again[key]) for key in reversed(keys)} == expected
    changed = [key for key in keys if drawn(other[key]) != expected[key]]
    assert len(changed) > 20
    for photo in range(6):
        assert len({str(expected[epoch, photo]) for epoch in range(4)}) > 1


def test_every_store_and_caption_of_a_photo_is_drawn(stores: list[FeatureStore]) -> None:
    data = CaptionedFeatures(stores, PHOTOS, CAPTIONS, 0, 2)
    for photo, name in enumerate(PHOTOS):
        examples = [data[epoch, photo] for epoch in range(30)]
        assert {e.photo for e in examples} == {photo}
        assert {e.image.image_id for e in examples} == {name}
        stored = {store[store.index(name)].features.tobytes() for store in stores}
        assert {e.image.features.tobytes() for e in examples} == stored
        firsts = [[ids[0] for ids in e.captions] for e in examples]
        assert {first for pair in firsts for first in pair} == {10 * photo + c for c in range(3)}
        assert all(len(set(pair)) == 2 for pair in firsts)  # two different captions each time
    assert len(dataset(stores, per_photo=5)[0, 2].captions) == 5  # some twice


SENTENCES = ["A brown dog runs.", "Two dogs run on the beach!", "The Beach by the sea"] * 3


def test_every_caption_can_be_written_with_it() -> None:
    tokenizer = learn_vocabulary(iter(SENTENCES), 60)
    assert len(tokenizer.vocabulary) <= 60
    assert tokenizer.vocabulary[:5] == SPECIAL
    assert tokenizer.indexable.tolist() == [i >= 5 for i in range(len(tokenizer.vocabulary))]
    for caption in SENTENCES[:3]:
        words = tokenizer.encode_query(caption).words
        spelt = ["".join(piece.removeprefix("##") for piece in word.pieces) for word in words]
        assert spelt == [word.text.lower() for word in words]
        assert all(spelt)


def test_same_captions_give_the_same_vocabulary() -> None:
    assert len({learn_vocabulary(SENTENCES, 50).vocabulary_hash for _ in range(8)}) == 1
