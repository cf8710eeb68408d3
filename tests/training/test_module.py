"""Learning rates, what an epoch holds, and what is dropped."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparta.errors import InputError
from tests import tiny
from training.module import (
    EpochSampler,
    PairSampler,
    drop_regions,
    drop_words,
    learning_rate_factor,
    near_by_label,
)


@pytest.mark.parametrize(("warmup", "rising"), [(0.0, 1), (0.2, 20)])
def test_rate_rises_then_stays_or_falls(warmup: float, rising: int) -> None:
    for step in range(101):
        done = (step - rising) / (100 - rising)
        after = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        for schedule, value in after.items():
            expected = (step + 1) / rising if step < rising else value
            found = learning_rate_factor(step, 100, warmup, schedule)  # type: ignore[arg-type]
            assert found == pytest.approx(expected, abs=1e-6)


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
        assert shares[0] == list(samplers[0])  # the same order again
        orders.append([photo for _, photo in keys])
    assert orders[0] != orders[1]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=20), st.integers(0, 5))
def test_an_epoch_holds_every_pair_once_a_photo_once_a_round(counts: list[int], epoch: int) -> None:
    def drawn(seed: int, epoch: int) -> list[tuple[int, ...]]:
        sampler = PairSampler(counts, seed)
        sampler.set_epoch(epoch)
        return list(sampler)

    found = drawn(3, epoch)
    assert found == drawn(3, epoch)
    every = [(epoch, photo, i) for photo, n in enumerate(counts) for i in range(n)]
    assert sorted(found) == every
    assert {photo for _, photo, _ in found[: len(counts)]} == set(range(len(counts)))
    if sum(n > 1 for n in counts) > 9:  # two orders are hardly ever equal
        photos = [photo for _, photo, _ in found]
        for other in (drawn(4, epoch), drawn(3, epoch + 1)):
            assert [photo for _, photo, _ in other] != photos
        assert {i for _, _, i in found[: len(counts)]} != {0}  # the caption it begins with, too


def test_photos_that_share_a_label_share_a_batch() -> None:
    """VisualSparta section 3.2: "sample similar images that have nearby labels"."""
    labels = [["person", f"thing {photo % 25}", ""] for photo in range(198)] + [["", ""], []]
    captions = [1 + photo % 3 for photo in range(200)]

    def drawn(epoch: int, labels: list[list[str]] | None) -> list[tuple[int, ...]]:
        sampler = PairSampler(captions, 5)
        sampler.places = None if labels is None else near_by_label(labels)
        sampler.set_epoch(epoch)
        return list(sampler)

    def sharing(keys: list[tuple[int, ...]]) -> float:
        """Pairs of a batch whose photos share a rare label."""
        batches = [keys[start : start + 16] for start in range(0, len(keys), 16)]
        pairs = [pair for batch in batches for pair in combinations([k[1] for k in batch], 2)]
        return sum(first % 25 == second % 25 for first, second in pairs) / len(pairs)

    near, anyhow = drawn(0, labels), drawn(0, None)
    assert near == drawn(0, labels) and near != drawn(1, labels)
    assert sorted(near) == sorted(anyhow)  # every pair once
    assert len({photo for _, photo, _ in near[:200]}) == 200  # a photo once a round
    assert sharing(near[:200]) > 0.3 > 8 * sharing(anyhow[:200]) > 0.1
    for photos in ([key[1] for key in drawn(epoch, labels)[:200]] for epoch in range(20)):
        assert abs(photos.index(198) - photos.index(199)) == 1  # those without labels, too
    with pytest.raises(InputError, match=r"data\.negatives: labels needs features with labels"):
        near_by_label([[""], []])


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
    assert drop_words([], chance, np.random.default_rng(0)) == []
