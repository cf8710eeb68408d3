"""Recursive graph bisection against its formula, and on images of two topics."""

from __future__ import annotations

from contextlib import closing
from math import log2
from pathlib import Path

import numpy as np
import pytest

from eval.bench.query_latency.collections import bisection
from eval.bench.query_latency.collections.bisection import bisected_order, gains
from indexer.columns.layout import BLOCK
from indexer.columns.row_files import PostingRows, RowFiles

TERMS = 40


def images(number: int, seed: int = 0) -> list[set[int]]:
    """Terms of images; those of odd numbers are of another topic than the others."""
    rng = np.random.default_rng(seed)
    return [
        set((2 * rng.choice(TERMS // 2, 6, replace=False) + image % 2).tolist())
        for image in range(number)
    ]


def as_rows(given: list[set[int]]) -> PostingRows:
    starts = np.concatenate([[0], np.cumsum([len(one) for one in given])])
    terms = np.concatenate([sorted(one) for one in given]).astype(np.uint16)
    return PostingRows(starts, terms, np.ones(len(terms), np.uint8))


def cost(given: list[set[int]], *halves: list[int], sizes: tuple[int, int]) -> float:
    """Equation 1 of the paper, term by term, for halves that count as if they had their sizes."""
    bits = 0.0
    for half, size in zip(halves, sizes, strict=True):
        for term in range(TERMS):
            degree = sum(term in given[image] for image in half)
            bits += degree * log2(size / (degree + 1))
    return bits


def test_a_gain_is_what_the_cost_falls_by() -> None:
    given = images(20)
    left, right = list(range(11)), list(range(11, 20))
    rows = as_rows(given)
    found = gains(
        rows.starts, rows.terms, np.array(left, np.int32), np.array(right, np.int32), TERMS
    )
    sizes = len(left), len(right)
    before = cost(given, left, right, sizes=sizes)
    for place, image in enumerate(left):
        moved = [one for one in left if one != image], [*right, image]
        after = cost(given, *moved, sizes=sizes)
        assert found[place] == pytest.approx(before - after, abs=1e-3)


def test_topics_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any order to start with: the one that ships tells them apart itself."""
    shuffled = np.random.default_rng(0).permutation(1000).astype(np.int32)
    monkeypatch.setattr(bisection, "topical_order", lambda rows: shuffled.copy())
    given = images(1000)
    with closing(RowFiles(tmp_path, TERMS, 8)) as files:
        files.add(as_rows(given))
        order = bisected_order(files.rows())
    assert sorted(order) == list(range(1000))
    topics = [set((order[first : first + BLOCK] % 2).tolist()) for first in range(0, 1000, BLOCK)]
    assert sum(len(one) == 2 for one in topics) <= 2  # halves end where superblocks do
