import numpy as np
import pytest

from tests import tiny
from training.dropout import drop_regions, drop_words


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
