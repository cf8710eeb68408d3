"""What an epoch holds: every draw is a function of seed, epoch and pair."""

from collections import Counter
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
from training.vse.pairs import (
    CaptionedRegions,
    PairCollator,
    disturb_words,
    drop_vectors,
    keep_grid,
    keep_regions,
)


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


MASK = 999
ORDINARY = list(range(500, 600))
# The only attributes that disturbing words reads of a tokenizer.
TOKENIZER: Any = SimpleNamespace(mask_id=MASK, ordinary_ids=ORDINARY)
# 1000 words of one to three pieces; each piece identifies its word.
WORDS = [[10_000 + 10 * i + piece for piece in range(1 + i % 3)] for i in range(1000)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(
    n=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    chance=st.sampled_from([0.0, 0.2, 0.9, 1.0]),
)
@pytest.mark.parametrize("keep", ["regions", "grid"])
def test_rows_rise_and_one_stays(keep: str, n: int, seed: int, chance: float) -> None:
    def rows() -> np.ndarray:
        if keep == "regions":
            return keep_regions(n, rng(seed), chance)
        return keep_grid(n, rng(seed), most=chance)

    kept = rows()
    assert kept.dtype == np.int64
    assert 1 <= len(kept) <= n
    assert (np.diff(kept) > 0).all()
    assert set(kept.tolist()) <= set(range(n))
    assert kept.tolist() == rows().tolist()
    if chance == 0:
        assert len(kept) == n
    if chance == 1 and keep == "regions":
        assert len(kept) == 1


def test_the_row_that_stays_is_drawn() -> None:
    draw = rng()
    assert {int(keep_regions(4, draw, 1.0)[0]) for _ in range(100)} == {0, 1, 2, 3}


def test_a_fifth_of_the_regions_is_dropped_each_as_often() -> None:
    draw = rng()
    kept = Counter(int(row) for _ in range(2000) for row in keep_regions(36, draw))
    shares = np.array([kept[row] / 2000 for row in range(36)])
    assert abs(shares.mean() - 0.8) < 0.01
    assert shares.min() > 0.75
    assert shares.max() < 0.85


def test_a_grid_keeps_all_or_drops_at_a_rate_of_its_own() -> None:
    draw = rng()
    dropped = np.array([1 - len(keep_grid(4096, draw)) / 4096 for _ in range(2000)])
    assert abs((dropped == 0).mean() - 0.2) < 0.03
    some = dropped[dropped > 0]
    assert some.min() > 0.025  # 4 to 20 %, give or take the draw of 4096 cells
    assert some.max() < 0.225
    assert abs(some.mean() - 0.12) < 0.005
    assert abs(np.quantile(some, 0.25) - 0.08) < 0.01  # the rate is drawn evenly
    assert abs(dropped.mean() - 0.096) < 0.005


@pytest.mark.parametrize("keep", [keep_regions, keep_grid])
def test_no_region_at_all_is_an_error(keep: Any) -> None:
    with pytest.raises(ValueError, match="at least one region"):
        keep(0, rng())


def fates(seed: int) -> Counter[str]:
    """What became of each word; all its pieces share its fate."""
    found = disturb_words(WORDS, TOKENIZER, rng(seed))
    kept = [word for word in found if word in WORDS]
    changed = [word for word in found if word not in WORDS]
    assert kept == sorted(kept)
    masked = [word for word in changed if set(word) == {MASK}]
    replaced = [word for word in changed if set(word) <= set(ORDINARY)]
    assert len(masked) + len(replaced) == len(changed)
    return Counter(
        kept=len(kept),
        masked=len(masked),
        replaced=len(replaced),
        deleted=len(WORDS) - len(found),
    )


def test_whole_words_are_masked_replaced_and_deleted() -> None:
    total = sum((fates(seed) for seed in range(10)), Counter[str]())
    shares = {fate: count / 10_000 for fate, count in total.items()}
    assert abs(shares["kept"] - 0.80) < 0.02
    assert abs(shares["masked"] - 0.10) < 0.015
    assert abs(shares["replaced"] - 0.02) < 0.008
    assert abs(shares["deleted"] - 0.08) < 0.015


def test_masked_and_replaced_words_keep_their_length() -> None:
    three = [[1, 2, 3]] * 5000
    found = disturb_words(three, TOKENIZER, rng(), 1.0)
    assert {len(word) for word in found} == {3}
    assert {piece for word in found for piece in word} == {MASK, *ORDINARY}
    replaced = [word for word in found if MASK not in word]
    assert {MASK} == {piece for word in found if MASK in word for piece in word}
    assert len({tuple(word) for word in replaced}) > 0.9 * len(replaced)
    assert any(len(set(word)) == 3 for word in replaced)  # each piece drawn by itself


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
    if chance == 0:
        assert found == words


def test_where_all_would_be_deleted_a_drawn_word_stays_as_it_is() -> None:
    draw = rng()
    found = [disturb_words([[1], [2, 3]], TOKENIZER, draw, 1.0) for _ in range(400)]
    alone = [words[0] for words in found if len(words) == 1]
    assert {(1,), (2, 3)} <= {tuple(word) for word in alone}


# ---- what a vision network gives ----------------------------------------------------------------


def network_output(sets: int, cells: int) -> RegionBatch:
    """Cell i of set b is [100 b + i + 1, its negative]: none is zero, all differ."""
    numbers = 1.0 + 100 * torch.arange(sets)[:, None] + torch.arange(cells)
    vectors = torch.stack([numbers, -numbers], dim=2).requires_grad_()
    return RegionBatch(vectors, torch.full((sets,), cells))


def test_vectors_of_a_network_are_dropped_and_the_rest_closes_up() -> None:
    images = network_output(6, 49)
    dropped = drop_vectors(images, "grid-flat", rng(3))
    expected = rng(3)
    for number, (rows, length) in enumerate(zip(*dropped, strict=True)):
        rest = keep_regions(49, expected)
        assert int(length) == len(rest) < 49
        assert rows[:length, 0].tolist() == [1.0 + 100 * number + i for i in rest]
        assert torch.equal(rows[:length, 1], -rows[:length, 0])
        assert not rows[length:].any()
    assert dropped.regions.shape[1] == int(dropped.lengths.max())
    dropped.regions.sum().backward()
    assert images.regions.grad is not None
    assert int((images.regions.grad == 1).all(dim=2).sum()) == int(dropped.lengths.sum())
    kept = drop_vectors(images, "none", rng())
    assert torch.equal(kept.regions, images.regions) and torch.equal(kept.lengths, images.lengths)
