"""Ranks against sorting all items, and recall against torchmetrics."""

import math
from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics.retrieval import RetrievalHitRate

import sparta.metrics
from sparta.metrics import Ties, ranks, ranks_by_block, recall

POLICIES: tuple[Ties, ...] = get_args(Ties)


def slow_ranks(
    scores: Tensor, right: Sequence[Sequence[int]], ties: Ties, without_self: bool = False
) -> list[int]:
    """Query by query: sort all items, drop the other right ones, and count."""
    found = []
    for query, own in enumerate(right):
        keys = []
        for item, score in enumerate(scores[query].tolist()):
            if without_self and item == query:
                continue
            is_right, unknown = item in own, math.isnan(score)
            # A right item with NaN is behind -inf too, a wrong one ahead of +inf.
            level = (-1 if is_right else 1) if unknown else 0
            tie = item if ties == "by_id" else is_right
            keys.append((-level, 0 if unknown else -score, tie, is_right))
        keys.sort()
        wrong_ahead = 0
        for *_, is_right in keys:
            if is_right:
                break
            wrong_ahead += 1
        found.append(wrong_ahead + 1)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Tensor, list[list[int]], bool]:
    queries, items = draw(st.integers(1, 6)), draw(st.integers(6, 9))
    values = st.sampled_from([0.0, 0.5, 1.0, -1.0, math.nan, math.inf, -math.inf])
    scores = draw(st.lists(values, min_size=queries * items, max_size=queries * items))
    without_self = draw(st.booleans())
    right = []
    for query in range(queries):
        others = [item for item in range(items) if not without_self or item != query]
        right.append(draw(st.lists(st.sampled_from(others), max_size=4, unique=True)))
    return torch.tensor(scores).reshape(queries, items), right, without_self


@pytest.mark.parametrize("ties", POLICIES)
@settings(max_examples=150)
@given(case=cases(), size=st.sampled_from([1, 18, 10_000]))
def test_ranks_equal_a_sort(
    ties: Ties, case: tuple[Tensor, list[list[int]], bool], size: int
) -> None:
    scores, right, without_self = case
    largest, sparta.metrics.LARGEST_BLOCK = sparta.metrics.LARGEST_BLOCK, size
    before = scores.clone()
    try:
        found = ranks_by_block(
            lambda part: scores[part], scores.shape[1], right, ties=ties, without_self=without_self
        )
    finally:
        sparta.metrics.LARGEST_BLOCK = largest
    assert found.tolist() == slow_ranks(scores, right, ties, without_self)
    assert torch.equal(scores.nan_to_num(7), before.nan_to_num(7))


def test_blocks_are_bounded_and_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparta.metrics, "LARGEST_BLOCK", 100)
    scores, asked, seen = torch.rand(23, 30), [], []

    def block(part: slice) -> Tensor:
        asked.append(scores[part].numel())
        return scores[part]

    right = [[query] for query in range(23)]
    ranks_by_block(block, 30, right, ties="by_id", progress=lambda *step: seen.append(step))
    assert max(asked) <= 100 and sum(asked) == scores.numel()
    assert seen[0] == ("rank", 3, 23) and seen[-1] == ("rank", 23, 23)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_recall_is_the_hit_rate_of_torchmetrics(k: int) -> None:
    """Unequal numbers of right items for each query, as images have captions."""
    random = torch.Generator().manual_seed(k)
    scores = torch.rand(40, 60, generator=random)
    right = [[query + 10 * i for i in range(1 + query % 3)] for query in range(40)]
    target = torch.zeros(40, 60, dtype=torch.bool)
    for query, own in enumerate(right):
        target[query, own] = True
    index = torch.arange(40)[:, None].expand(40, 60)
    expected = RetrievalHitRate(top_k=k)(scores.flatten(), target.flatten(), index.flatten())
    found = recall(ranks(scores, right, ties="pessimistic"))
    assert getattr(found, f"at_{k}") == pytest.approx(100 * float(expected))
    assert recall(torch.tensor([1, 1, 3, 5, 6, 200])).median_rank == 4
