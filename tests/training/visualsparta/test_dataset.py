from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from sparta.features.store import FeatureStore
from sparta.features.writer import write_store
from sparta.visualsparta.collate import ImageCollator
from tests import tiny
from training.visualsparta.dataset import (
    CaptionedFeatures,
    EpochSampler,
    Example,
    TrainingBatch,
    TrainingCollator,
    drop_regions,
    drop_words,
)

PHOTOS = [f"p{i}.jpg" for i in range(6)]
CAPTIONS = [[[10 * i + c, 7, 8, 9] for c in range(3)] for i in range(6)]


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> list[FeatureStore]:
    """Two views of six photos; the second has one more photo, and other rows for the same ones."""
    folder = tmp_path_factory.mktemp("views")
    stores = []
    for view in range(2):
        names = ["a.jpg", *PHOTOS] if view else PHOTOS
        shown = [
            replace(tiny.image(4, ("dog",), seed=100 * view + i), image_id=name)
            for i, name in enumerate(names)
        ]
        stores.append(write_store(folder / str(view), tiny.source(), shown))
    return stores


def dataset(views: Sequence[FeatureStore], seed: int = 0, per_photo: int = 2) -> CaptionedFeatures:
    return CaptionedFeatures(views, PHOTOS, CAPTIONS, seed, per_photo, 0.3, 0.3)


def drawn(example: Example) -> tuple[object, ...]:
    return (example.photo, example.image.features.tobytes(), example.captions)


def test_a_draw_depends_on_seed_epoch_and_photo_alone(views: list[FeatureStore]) -> None:
    keys = [(epoch, photo) for epoch in range(4) for photo in range(6)]
    first, again, other = dataset(views), dataset(views), dataset(views, seed=1)
    expected = {key: drawn(first[key]) for key in keys}
    np.random.seed(5)
    torch.manual_seed(5)
    assert {key: drawn(again[key]) for key in reversed(keys)} == expected
    changed = [key for key in keys if drawn(other[key]) != expected[key]]
    assert len(changed) > 20
    for photo in range(6):
        assert len({str(expected[epoch, photo]) for epoch in range(4)}) > 1


def test_every_view_and_caption_of_a_photo_is_drawn(views: list[FeatureStore]) -> None:
    data = CaptionedFeatures(views, PHOTOS, CAPTIONS, 0, 2)
    for photo, name in enumerate(PHOTOS):
        examples = [data[epoch, photo] for epoch in range(30)]
        assert {e.photo for e in examples} == {photo}
        assert {e.image.image_id for e in examples} == {name}
        shown = {view[view.index(name)].features.tobytes() for view in views}
        assert {e.image.features.tobytes() for e in examples} == shown
        firsts = [[ids[0] for ids in e.captions] for e in examples]
        assert {first for pair in firsts for first in pair} == {10 * photo + c for c in range(3)}
        assert all(len(set(pair)) == 2 for pair in firsts)  # two different captions each time


def test_too_few_captions_are_repeated(views: list[FeatureStore]) -> None:
    example = dataset(views, per_photo=5)[0, 2]
    assert len(example.captions) == 5


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_dropping_keeps_at_least_one_and_the_order(chance: float) -> None:
    image, ids = tiny.image(8, tuple("abcdefgh")), list(range(50, 58))
    regions, words = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        kept = drop_regions(image, chance, rng)
        rows = ["abcdefgh".index(label) for label in kept.labels]
        assert rows == sorted(rows)
        assert len(rows) >= 1
        np.testing.assert_array_equal(kept.features, image.features[rows])
        np.testing.assert_array_equal(kept.boxes, image.boxes[rows])
        assert kept.attributes == tuple(image.attributes[row] for row in rows)
        left = drop_words(ids, chance, rng)
        assert left == sorted(set(left))
        assert left
        regions.append(len(rows))
        words.append(len(left))
    for counts in (regions, words):
        assert np.mean(counts) == pytest.approx(max(1, 8 * (1 - chance)), abs=0.4)


def test_a_caption_without_known_words_stays_empty() -> None:
    assert drop_words([], 0.5, np.random.default_rng(0)) == []


@pytest.mark.parametrize(("photos", "world"), [(12, 1), (12, 3), (13, 4), (7, 2)])
def test_sampler_shares_photos_out_without_overlap(photos: int, world: int) -> None:
    orders = []
    for epoch in (0, 3):
        samplers = [EpochSampler(photos, 5, rank, world) for rank in range(world)]
        for sampler in samplers:
            sampler.set_epoch(epoch)
        shares = [list(sampler) for sampler in samplers]
        assert [len(share) for share in shares] == [len(s) for s in samplers]
        assert {len(share) for share in shares} == {photos // world}
        keys = [key for share in shares for key in share]
        assert len(set(keys)) == len(keys) == photos - photos % world
        assert {drawn_in for drawn_in, _ in keys} == {epoch}
        assert {photo for _, photo in keys} <= set(range(photos))
        assert shares[0] == list(samplers[0])  # asked again, the same answer
        orders.append([photo for _, photo in keys])
    assert orders[0] != orders[1]


def test_examples_become_a_batch(views: list[FeatureStore]) -> None:
    data = dataset(views)
    collate = TrainingCollator(ImageCollator(tiny.tokenizer(), 50, 35))
    batch = collate([data[1, 4], data[1, 2]])
    assert isinstance(batch, TrainingBatch)
    assert batch.photos.tolist() == [4, 2]
    assert batch.query_photos.tolist() == [4, 4, 2, 2]
    texts = [*data[1, 4].captions, *data[1, 2].captions]
    for ids, mask, text in zip(batch.query_ids, batch.query_mask, texts, strict=True):
        assert ids[mask].tolist() == text
    kept = [len(data[1, photo].image.features) for photo in (4, 2)]
    assert batch.images.region_mask.sum(dim=1).tolist() == kept
    moved = batch.to("meta")
    assert {moved.images.regions.device.type, moved.query_ids.device.type} == {"meta"}
