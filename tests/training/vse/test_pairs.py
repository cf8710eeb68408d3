"""Pairs: what an epoch holds, and that every draw is a function of seed, epoch and pair."""

from typing import Any

import numpy as np
import pytest
import torch

from sparta.captions.read import read_captions
from sparta.features.store import FeatureStore
from sparta.vse.tokenizer import TextTokenizer
from tests.training.corpus import Corpus
from training.vse.config import VseAugmentationConfig
from training.vse.pairs import CaptionedRegions, PairCollator


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
