import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sparta.metrics import Recall, ranks, recall


def slow_rank(scores: list[float], target: int) -> int:
    """Place in the list sorted by falling score, then rising column."""
    order = sorted(range(len(scores)), key=lambda column: (-scores[column], column))
    return order.index(target) + 1


@settings(max_examples=60)
@given(st.data(), st.integers(1, 6), st.integers(1, 9))
def test_ranks_equal_a_sort_with_ties(data: st.DataObject, queries: int, images: int) -> None:
    row = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=images, max_size=images)
    scores = [data.draw(row) for _ in range(queries)]
    targets = [data.draw(st.integers(0, images - 1)) for _ in range(queries)]
    found = ranks(torch.tensor(scores), torch.tensor(targets))
    assert found.tolist() == [slow_rank(s, t) for s, t in zip(scores, targets, strict=True)]


def test_a_diverged_model_is_not_perfect() -> None:
    broken = torch.full((4, 4), math.nan)
    assert ranks(broken, torch.arange(4)).tolist() == [1, 2, 3, 4]
    mixed = torch.tensor([[math.nan, 0.0, 3.0]] * 3)
    assert ranks(mixed, torch.arange(3)).tolist() == [3, 2, 1]
    infinite = torch.tensor([[math.inf, 5.0, -math.inf]] * 3)
    assert ranks(infinite, torch.arange(3)).tolist() == [1, 2, 3]


def test_recall_counts_in_percent() -> None:
    rank = np.array([1, 1, 3, 5, 6, 10, 11, 200])
    found = recall(torch.from_numpy(rank))
    expected = [100 * (rank <= k).mean() for k in (1, 5, 10)]
    assert found == pytest.approx([*expected, np.median(rank)])
    assert str(Recall(25.0, 50.0, 75.25, 5.5)) == "25.0 / 50.0 / 75.2, 5.5"
