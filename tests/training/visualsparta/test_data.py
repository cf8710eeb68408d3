"""What a training example of VisualSparta holds, and vocabularies that captions make."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from sparta.features.store import FeatureStore
from sparta.visualsparta.batch import ImagePadder
from sparta.visualsparta.model import count_terms, pad_ids
from tests import tiny
from tests.stores import write_store
from training.teacher.similarities import SentenceDraw
from training.visualsparta.dataset import (
    SPECIAL,
    CaptionedFeatures,
    TrainingBatch,
    TrainingCollator,
    TrainingExample,
    learn_vocabulary,
)

PHOTOS = [f"p{i}.jpg" for i in range(6)]
CAPTIONS = [[[10 * i + c, 7, 8, 9] for c in range(3)] for i in range(6)]


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


def test_examples_become_a_batch(
    stores: list[FeatureStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dataset(stores)
    collate = TrainingCollator(ImagePadder(tiny.tokenizer(), 50, 35))
    photos = sorted([4, 2, 5], key=lambda photo: collate.images.length(data[1, photo].image))
    monkeypatch.setattr("training.visualsparta.dataset.PART", 2)
    batch = collate([data[1, photo] for photo in (4, 2, 5)])
    assert isinstance(batch, TrainingBatch)
    assert batch.photos.tolist() == photos  # those of similar length together
    assert batch.query_photos.tolist() == [photo for photo in photos for _ in range(2)]
    texts = [text for photo in photos for text in data[1, photo].captions]
    for ids, mask, text in zip(batch.query_ids, batch.query_mask, texts, strict=True):
        assert ids[mask].tolist() == text
    kept = [len(data[1, photo].image.features) for photo in photos]
    masks = [part.region_mask for part in batch.images]
    assert [count for mask in masks for count in mask.sum(dim=1).tolist()] == kept
    assert [mask.shape for mask in masks] == [(2, kept[1]), (1, kept[2])]
    moved = batch.to("meta")
    devices = {tensor.device.type for tensor in (moved.images[1].regions, moved.query_ids)}
    assert devices == {"meta"}


def test_sentences_are_drawn_for_a_teacher(stores: list[FeatureStore]) -> None:
    """Photo 2 has no captions: it draws near sentences in their place."""
    captions = [texts if i != 2 else [] for i, texts in enumerate(CAPTIONS)]
    numbers = [[3 * i + c for c in range(3)] if i != 2 else [] for i in range(6)]
    ids = [[100 + n, 7, 8] for n in range(30)]
    nearest = np.array([[20 + i, 24 + i] for i in range(6)], np.int32)
    draw = SentenceDraw(ids, numbers, nearest, near=1, random=1)
    data = CaptionedFeatures(stores, PHOTOS, captions, 0, 1, 0.0, 0.0, draw)
    plain = CaptionedFeatures(stores, PHOTOS, CAPTIONS, 0, 1)
    for epoch in range(20):
        with_captions, without = data[epoch, 4], data[epoch, 2]
        assert with_captions.captions == plain[epoch, 4].captions
        first, near, other = with_captions.numbers
        assert CAPTIONS[4][first - 12] == with_captions.captions[0]
        assert near in (24, 28)
        assert with_captions.sentences == [ids[near], ids[other]]
        assert without.captions == []
        assert set(without.numbers[:2]) == {22, 26}
        assert without.sentences == [ids[n] for n in without.numbers]
    collate = TrainingCollator(ImagePadder(tiny.tokenizer(), 50, 35))
    batch = collate([data[0, 4], data[0, 2]])
    assert batch.query_photos.tolist() == [4, -1, -1, -1, -1, -1]
    assert batch.query_numbers.tolist() == [*data[0, 4].numbers, *data[0, 2].numbers]
    assert len(collate([plain[0, 1]]).query_numbers) == 0


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


def test_case_does_not_matter() -> None:
    tokenizer = learn_vocabulary(SENTENCES, 60)
    assert tokenizer.encode_ids("THE BEACH") == tokenizer.encode_ids("the beach")
    ids, mask = pad_ids([tokenizer.encode_ids("the the beach")], "cpu")
    assert sorted(count_terms(ids, mask).counts[0].tolist())[-1] == 2
