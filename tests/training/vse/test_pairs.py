"""Pairs: what an epoch holds, and that every draw is a function of seed, epoch and pair."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparta.captions.read import read_captions
from sparta.features.store import FeatureStore
from sparta.vse.tokenizer import TextTokenizer
from tests.training.corpus import Corpus
from training.vse.config import VseAugmentationConfig
from training.vse.pairs import CaptionedRegions, PairCollator, PairSampler


def pairs_of(sampler: PairSampler, epoch: int) -> list[tuple[int, int]]:
    sampler.set_epoch(epoch)
    drawn = list(sampler)
    assert {e for e, _, _ in drawn} <= {epoch}
    return [(photo, caption) for _, photo, caption in drawn]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(0, 5))
def test_an_epoch_holds_every_pair_once(counts: list[int], epoch: int) -> None:
    found = pairs_of(PairSampler(counts, seed=3), epoch)
    assert sorted(found) == [(photo, i) for photo, n in enumerate(counts) for i in range(n)]


def test_a_photo_comes_once_a_round() -> None:
    found = pairs_of(PairSampler([5] * 40, seed=0), 0)
    for start in range(0, 200, 40):
        assert sorted(photo for photo, _ in found[start : start + 40]) == list(range(40))


def test_epochs_differ_and_repeat() -> None:
    sampler = PairSampler([3] * 30, seed=1)
    first = pairs_of(sampler, 0)
    assert first == pairs_of(PairSampler([3] * 30, seed=1), 0)
    assert first != pairs_of(sampler, 1)
    assert first != pairs_of(PairSampler([3] * 30, seed=2), 0)
    # Which caption a photo begins with is drawn, too.
    assert len({caption for _, caption in first[:30]}) > 1


def test_processes_share_an_epoch_without_overlap() -> None:
    whole = pairs_of(PairSampler([2, 3, 5, 1], seed=0), 4)
    parts = [PairSampler([2, 3, 5, 1], 0, rank, 2) for rank in range(2)]
    found = [pairs_of(part, 4) for part in parts]
    assert [len(part) for part in parts] == [5, 5] == [len(part) for part in found]
    assert Counter(found[0] + found[1]) == Counter(whole[:10])
    assert Counter(found[0] + found[1]) != Counter(found[0] + found[0])


@pytest.fixture(scope="module")
def texts(corpus: Corpus) -> list[tuple[str, ...]]:
    return [photo.captions for photo in read_captions(corpus.captions)]


def dataset(
    corpus: Corpus, texts: list[tuple[str, ...]], seed: int = 0, **augmentation: object
) -> CaptionedRegions:
    tokenizer = TextTokenizer.from_captions((t for photo in texts for t in photo), 1)
    store = FeatureStore.open(corpus.features)
    options = VseAugmentationConfig.model_validate(augmentation)
    return CaptionedRegions([store, store], store.ids, texts, tokenizer, seed, options)


def test_without_augmentation_a_pair_is_what_is_stored(
    corpus: Corpus, texts: list[tuple[str, ...]]
) -> None:
    data = dataset(corpus, texts)
    store = FeatureStore.open(corpus.features)
    assert len(data) == sum(map(len, texts))
    pair = data[3, 7, 1]
    assert pair.photo == 7
    np.testing.assert_array_equal(pair.image.features, store[7].features)
    assert pair.ids == data.words.tokenizer.encode(texts[7][1])


def test_augmentation_is_drawn_by_seed_epoch_and_pair(
    corpus: Corpus, texts: list[tuple[str, ...]]
) -> None:
    options: dict[str, Any] = {"regions": "regions", "words": 0.5}
    data, again = (dataset(corpus, texts, **options) for _ in range(2))
    other = dataset(corpus, texts, seed=1, **options)

    def drawn(of: CaptionedRegions, epoch: int) -> list[tuple[bytes, list[int]]]:
        found = [of[epoch, photo, 0] for photo in range(30)]
        return [(pair.image.features.tobytes(), pair.ids) for pair in found]

    assert drawn(data, 0) == drawn(again, 0)
    assert drawn(data, 0) != drawn(data, 1)
    assert drawn(data, 0) != drawn(other, 0)
    sizes = {len(data[0, photo, 0].image.features) for photo in range(30)}
    assert sizes == {1, 2, 3} or sizes == {2, 3}


def test_batches_are_padded(corpus: Corpus, texts: list[tuple[str, ...]]) -> None:
    data = dataset(corpus, texts, regions="regions", words=0.5)
    pairs = [data[0, photo, 1] for photo in range(8)]
    batch = PairCollator(data.words.tokenizer.pad_id, None)(pairs)
    assert torch.equal(batch.photos, torch.arange(8))
    assert batch.texts.lengths.tolist() == [len(pair.ids) for pair in pairs]
    assert batch.images.lengths.tolist() == [len(pair.image.features) for pair in pairs]
    moved = batch.to("cpu")
    assert torch.equal(moved.images.regions, batch.images.regions)
