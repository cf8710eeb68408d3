"""Ranks against loops over all pairs, and recall against torchmetrics."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchmetrics.retrieval import RetrievalHitRate

import sparta.metrics
from sparta.metrics import best_ranks, recall


def slow_ranks(scores: Tensor, right: Sequence[Sequence[int]], without_self: bool) -> list[int]:
    """Query by query, item by item."""
    ranks = []
    for query, own in enumerate(right):
        best = -math.inf
        for item in own:
            score = float(scores[query, item])
            best = max(best, -math.inf if math.isnan(score) else score)
        ahead = 0
        for item, score in enumerate(scores[query].tolist()):
            wrong = item not in own and not (without_self and item == query)
            if wrong and (math.isnan(score) or score >= best):
                ahead += 1
        ranks.append(ahead + 1)
    return ranks


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


@settings(max_examples=150)
@given(case=cases(), size=st.sampled_from([1, 18, 10_000]))
def test_ranks_against_loops(case: tuple[Tensor, list[list[int]], bool], size: int) -> None:
    scores, right, without_self = case
    largest, sparta.metrics.LARGEST_BLOCK = sparta.metrics.LARGEST_BLOCK, size
    before = scores.clone()
    try:
        found = best_ranks(
            lambda part: scores[part], scores.shape[1], right, without_self=without_self
        )
    finally:
        sparta.metrics.LARGEST_BLOCK = largest
    assert found.tolist() == slow_ranks(scores, right, without_self)
    assert torch.equal(scores.nan_to_num(7), before.nan_to_num(7))


@settings(max_examples=50)
@given(case=cases(), order=st.permutations(range(9)))
def test_the_order_of_items_does_not_matter(
    case: tuple[Tensor, list[list[int]], bool], order: list[int]
) -> None:
    scores, right, _ = case
    items = [item for item in order if item < scores.shape[1]]
    places = {item: place for place, item in enumerate(items)}
    moved = [[places[item] for item in own] for own in right]
    found = best_ranks(lambda part: scores[part], len(items), right)
    again = best_ranks(lambda part: scores[part][:, items], len(items), moved)
    assert torch.equal(found, again)


def test_ties_and_nan_count_against_the_model() -> None:
    scores = torch.tensor([[1.0, 1.0, 0.0], [math.nan, 0.0, 0.0], [0.5, math.nan, 0.0]])
    ranks = best_ranks(lambda part: scores[part], 3, [[0], [0], [0]])
    assert ranks.tolist() == [2, 3, 2]


def test_other_right_items_are_no_competitors() -> None:
    scores = torch.tensor([[3.0, 2.0, 4.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    assert best_ranks(lambda part: scores[part], 4, [[0, 1], [0, 1, 2]]).tolist() == [2, 1]


def test_blocks_are_bounded_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparta.metrics, "LARGEST_BLOCK", 100)
    scores, asked, seen = torch.rand(23, 30), [], []

    def block(part: slice) -> Tensor:
        asked.append(scores[part].numel())
        return scores[part]

    right = [[query] for query in range(23)]
    best_ranks(block, 30, right, progress=lambda done, total: seen.append((done, total)))
    assert max(asked) <= 100 and sum(asked) == scores.numel()
    assert seen[0] == (3, 23) and seen[-1] == (23, 23)


def test_no_queries() -> None:
    assert best_ranks(lambda part: torch.empty(0, 5), 5, []).tolist() == []


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
    found = recall(best_ranks(lambda part: scores[part], 60, right))
    assert getattr(found, f"at_{k}") == pytest.approx(100 * float(expected))
