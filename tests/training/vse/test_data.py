"""What an epoch holds: every draw is a function of seed, epoch and pair."""

from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sparta.captions.read import read_captions
from sparta.features.store import FeatureStore
from sparta.vse.batch import RegionBatch
from sparta.vse.tokenizer import TextTokenizer
from tests.training.corpus import Corpus
from training.vse.config import VseAugmentationConfig
from training.vse.data import (
    CaptionedImages,
    collate_pairs,
    disturb_words,
    drop_vectors,
    keep_rows,
)


@pytest.fixture(scope="module")
def texts(corpus: Corpus) -> list[tuple[str, ...]]:
    return [photo.captions for photo in read_captions(corpus.captions)]


def dataset(
    corpus: Corpus, texts: list[tuple[str, ...]], seed: int = 0, **augmentation: object
) -> CaptionedImages:
    tokenizer = TextTokenizer.from_captions((t for photo in texts for t in photo), 1)
    store = FeatureStore.open(corpus.features)
    options = VseAugmentationConfig.model_validate(augmentation)
    return CaptionedImages([store, store], store.ids, texts, tokenizer, seed, options)


def test_pairs_are_what_is_stored_augmented_by_seed_epoch_and_pair(
    corpus: Corpus, texts: list[tuple[str, ...]]
) -> None:
    plain, store = dataset(corpus, texts), FeatureStore.open(corpus.features)
    assert len(plain) == sum(map(len, texts))
    pair = plain[3, 7, 1]
    assert pair.photo == 7 and pair.ids == plain.tokenizer.encode(texts[7][1])
    np.testing.assert_array_equal(pair.image.features, store[7].features)
    options: dict[str, Any] = {"regions": "regions", "words": 0.5}
    data, again = (dataset(corpus, texts, **options) for _ in range(2))
    other = dataset(corpus, texts, seed=1, **options)

    def drawn(of: CaptionedImages, epoch: int) -> list[tuple[bytes, list[int]]]:
        found = [of[epoch, photo, 0] for photo in range(30)]
        return [(pair.image.features.tobytes(), pair.ids) for pair in found]

    assert drawn(data, 0) == drawn(again, 0)
    assert drawn(data, 0) not in (drawn(data, 1), drawn(other, 0))
    assert {len(data[0, photo, 0].image.features) for photo in range(30)} >= {2, 3}
    pairs = [data[0, photo, 1] for photo in range(8)]
    batch = collate_pairs(pairs, data.tokenizer.pad_id, None)
    assert torch.equal(batch.photos, torch.arange(8))
    assert batch.texts.lengths.tolist() == [len(pair.ids) for pair in pairs]
    assert batch.images.lengths.tolist() == [len(pair.image.features) for pair in pairs]


MASK = 999
ORDINARY = list(range(500, 600))
# The only attributes that disturbing words reads of a tokenizer.
TOKENIZER: Any = SimpleNamespace(mask_id=MASK, ordinary_ids=ORDINARY)
# 1000 words of one to three pieces; each piece identifies its word.
WORDS = [[10_000 + 10 * i + piece for piece in range(1 + i % 3)] for i in range(1000)]
rng = np.random.default_rng


@given(n=st.integers(1, 12), seed=st.integers(0, 10**6))
@pytest.mark.parametrize("rule", ["none", "regions", "grid", "grid-flat"])
def test_rows_rise_and_one_stays(rule: str, n: int, seed: int) -> None:
    kept = keep_rows(rule, n, rng(seed))
    assert kept.dtype == np.int64 and 1 <= len(kept) <= n
    assert (np.diff(kept) > 0).all() and set(kept.tolist()) <= set(range(n))
    assert kept.tolist() == keep_rows(rule, n, rng(seed)).tolist()
    assert rule != "none" or len(kept) == n


def test_a_grid_keeps_all_or_drops_at_a_rate_of_its_own() -> None:
    draw = rng(0)
    dropped = np.array([1 - len(keep_rows("grid", 4096, draw)) / 4096 for _ in range(2000)])
    assert abs((dropped == 0).mean() - 0.2) < 0.03
    some = dropped[dropped > 0]
    assert 0.025 < some.min() < some.max() < 0.225  # 4 to 20 %, give or take 4096 draws
    assert abs(some.mean() - 0.12) < 0.005
    assert abs(np.quantile(some, 0.25) - 0.08) < 0.01  # the rate is drawn evenly
    assert abs(dropped.mean() - 0.096) < 0.005


def fates(seed: int) -> Counter[str]:
    """What became of each word; all its pieces share its fate."""
    found = disturb_words(WORDS, TOKENIZER, rng(seed))
    kept = [word for word in found if word in WORDS]
    changed = [word for word in found if word not in WORDS]
    masked = [word for word in changed if set(word) == {MASK}]
    replaced = [word for word in changed if set(word) <= set(ORDINARY)]
    assert kept == sorted(kept) and len(masked) + len(replaced) == len(changed)
    counts = {"kept": len(kept), "masked": len(masked), "replaced": len(replaced)}
    return Counter(counts | {"deleted": len(WORDS) - len(found)})


def test_whole_words_are_masked_replaced_and_deleted() -> None:
    total = sum((fates(seed) for seed in range(10)), Counter[str]())
    for fate, share in {"kept": 0.8, "masked": 0.1, "replaced": 0.02, "deleted": 0.08}.items():
        assert abs(total[fate] / 10_000 - share) < 0.015
    found = disturb_words([[1, 2, 3]] * 5000, TOKENIZER, rng(0), 1.0)
    assert {len(word) for word in found} == {3}
    replaced = [word for word in found if MASK not in word]
    assert {piece for word in replaced for piece in word} == set(ORDINARY)  # each drawn by itself
    assert len({tuple(word) for word in replaced}) > 0.9 * len(replaced)


@given(
    lengths=st.lists(st.integers(1, 3), max_size=6),
    seed=st.integers(0, 10**6),
    chance=st.sampled_from([0.0, 0.2, 1.0]),
)
def test_a_seed_decides_and_one_word_stays(lengths: list[int], seed: int, chance: float) -> None:
    words = [[10 * i + piece for piece in range(n)] for i, n in enumerate(lengths)]
    given_words = [list(word) for word in words]
    found = disturb_words(words, TOKENIZER, rng(seed), chance)
    assert found == disturb_words(words, TOKENIZER, rng(seed), chance)
    assert words == given_words
    assert min(len(words), 1) <= len(found) <= len(words)
    assert chance or found == words


def test_vectors_of_a_network_are_dropped_and_the_rest_closes_up() -> None:
    """Cell i of set b is [100 b + i + 1, its negative]: none is zero, all differ."""
    numbers = 1.0 + 100 * torch.arange(6)[:, None] + torch.arange(49)
    vectors = torch.stack([numbers, -numbers], dim=2).requires_grad_()
    images = RegionBatch(vectors, torch.full((6,), 49))
    dropped = drop_vectors(images, "grid-flat", rng(3))
    rest_of = partial(keep_rows, "grid-flat", 49, rng(3))
    for number, (rows, length) in enumerate(zip(*dropped, strict=True)):
        rest = rest_of()
        assert int(length) == len(rest) < 49
        assert rows[:length, 0].tolist() == [1.0 + 100 * number + i for i in rest]
        assert torch.equal(rows[:length, 1], -rows[:length, 0])
        assert not rows[length:].any()
    assert dropped.regions.shape[1] == int(dropped.lengths.max())
    dropped.regions.sum().backward()
    assert vectors.grad is not None
    assert int((vectors.grad == 1).all(dim=2).sum()) == int(dropped.lengths.sum())
    kept = drop_vectors(images, "none", rng(0))
    assert torch.equal(kept.regions, images.regions) and torch.equal(kept.lengths, images.lengths)
