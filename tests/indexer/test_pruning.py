"""Pruning and quantising against slow plain code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.pruning import asked_weights, estimate_offsets, prune
from indexer.quantisation import Quantiser
from indexer.settings import OFFSET_KINDS


def floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def slow_prune(
    scores: list[float],
    offset: list[float],
    allowed: list[bool],
    top_n: int | None,
    weights: list[float],
) -> list[float]:
    above = [
        max(0.0, score - base) if ok else 0.0
        for score, base, ok in zip(scores, offset, allowed, strict=True)
    ]
    order = sorted(range(len(above)), key=lambda term: (-above[term] * weights[term], term))
    kept = set(order[: len(above) if top_n is None else top_n])
    return [value if term in kept else 0.0 for term, value in enumerate(above)]


@given(data=st.data())
def test_prune_equals_the_slow_way(data: st.DataObject) -> None:
    terms = data.draw(st.integers(1, 12))
    # Quarters are exact in float32, and few, so that scores tie.
    quarters = st.lists(st.integers(0, 6).map(lambda i: i / 4), min_size=terms, max_size=terms)
    images = data.draw(st.lists(quarters, min_size=1, max_size=4))
    offset = data.draw(quarters)
    allowed = data.draw(st.lists(st.booleans(), min_size=terms, max_size=terms))
    top_n = data.draw(st.none() | st.integers(1, terms + 2))
    # Few again, so that products tie too, exact in float32.
    weights = data.draw(st.lists(st.sampled_from([1.0, 1.5, 3.0]), min_size=terms, max_size=terms))
    given = floats(images), floats(offset), np.array(allowed), top_n
    ones = [1.0] * terms
    right = [slow_prune(row, offset, allowed, top_n, ones) for row in images]
    assert prune(*given).tolist() == prune(*given, floats(ones)).tolist() == right
    right = [slow_prune(row, offset, allowed, top_n, weights) for row in images]
    assert prune(*given, floats(weights)).tolist() == right


@given(data=st.data())
def test_terms_are_chosen_by_score_times_frequency(data: st.DataObject) -> None:
    """Score x (frequency + 1)^p, one image at a time; what is kept is the score."""
    terms = data.draw(st.integers(1, 12))
    row = data.draw(st.lists(st.integers(0, 2000), min_size=terms, max_size=terms))
    scores = floats([row]) / np.float32(1024)
    found = data.draw(st.lists(st.integers(0, 10**6), min_size=terms, max_size=terms))
    power = data.draw(st.sampled_from([0, 0.2, 0.35, 1]))
    top_n = data.draw(st.integers(1, terms))
    weights = asked_weights(np.array(found), power)
    kept = prune(scores, None, np.ones(terms, np.bool_), top_n, weights)[0]
    products = [
        np.float32(score / 1024) * np.float32((frequency + 1.0) ** power)
        for score, frequency in zip(row, found, strict=True)
    ]
    order = sorted(range(terms), key=lambda term: (-products[term], term))[:top_n]
    assert kept.tolist() == [row[t] / 1024 if t in order else 0 for t in range(terms)]
    if power == 0:
        plain = prune(scores, None, np.ones(terms, np.bool_), top_n)[0]
        assert np.array_equal(kept, plain)


def test_frequent_terms_are_kept_first() -> None:
    scores = floats([[1.0, 0.75, 0.5, 0.0]])
    weights = asked_weights(np.array([0, 0, 3, 1000]), 0.5)
    assert weights.tolist() == pytest.approx([1, 1, 2, 1001**0.5])
    allowed = np.ones(4, np.bool_)
    # Terms 0 and 2 have equal products; a term without a score is never kept.
    assert prune(scores, None, allowed, 1, weights).tolist() == [[1.0, 0.0, 0.0, 0.0]]
    assert prune(scores, None, allowed, 2, weights).tolist() == [[1.0, 0.0, 0.5, 0.0]]
    assert prune(scores, None, allowed, 4, weights).tolist() == scores.tolist()
    assert prune(scores, None, allowed, None, weights).tolist() == scores.tolist()


def test_without_an_offset_the_largest_scores_stay() -> None:
    scores = floats([[3.0, 1.0, 2.0, 2.0]])
    kept = prune(scores, None, np.ones(4, np.bool_), 2)
    assert kept.tolist() == [[3.0, 0.0, 2.0, 0.0]]


def test_broken_scores_are_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        prune(floats([[float("nan")]]), None, np.array([True]), None)


def test_offsets_are_what_they_are_called() -> None:
    scores = np.random.default_rng(0).random((31, 50), np.float32)
    plain = scores.astype(np.float64)
    right = {
        "mean": plain.mean(axis=0),
        "median": np.median(plain, axis=0),
        "minimum": plain.min(axis=0),
        "none": np.zeros(50),
    }
    assert set(right) == set(OFFSET_KINDS)
    for kind in OFFSET_KINDS:
        assert estimate_offsets(scores, kind) == pytest.approx(right[kind], rel=1e-6)


def test_minimum_offset_changes_no_unpruned_ranking() -> None:
    random = np.random.default_rng(0)
    # Multiples of 1/1024, so that float32 sums are exact and equal means equal.
    scores = (random.integers(0, 4096, (200, 300)) / 1024).astype(np.float32)
    allowed = np.ones(300, np.bool_)
    queries = random.integers(0, 2, (50, 300)).astype(np.float32)
    kept = prune(scores, estimate_offsets(scores, "minimum"), allowed, None)
    before = np.argsort(-(queries @ scores.T), axis=1, kind="stable")
    after = np.argsort(-(queries @ kept.T), axis=1, kind="stable")
    assert np.array_equal(before, after)
    # The mean also drops scores below it, so it does change rankings.
    mean = prune(scores, estimate_offsets(scores, "mean"), allowed, None)
    other = np.argsort(-(queries @ mean.T), axis=1, kind="stable")
    assert not np.array_equal(before, other)


@pytest.mark.parametrize("bits", [1, 4, 8, 16])
def test_quantised_scores_lie_within_half_a_level(bits: int) -> None:
    scores = np.random.default_rng(0).random(1000).astype(np.float32) * 5 + 1e-3
    quantiser = Quantiser.fit(float(scores.max()), bits)
    impacts = quantiser.impacts(scores)
    assert impacts.dtype == np.int32
    assert impacts.min() >= 1 and impacts.max() == 2**bits - 1
    right = [max(1, min(2**bits - 1, round(s / quantiser.scale))) for s in scores.astype(float)]
    assert np.abs(impacts - right).max() <= 1
    report = quantiser.report(scores, impacts)
    errors = [abs(i * quantiser.scale - float(s)) for i, s in zip(impacts, scores, strict=True)]
    assert report.clipped == 0
    assert report.largest_error == pytest.approx(max(errors))
    assert report.total_error == pytest.approx(sum(errors))


def test_scores_above_the_top_level_are_clipped_and_counted() -> None:
    quantiser = Quantiser.fit(1.0, 8)
    scores = np.array([0.4, 1.0, 1.5, 2.0], np.float32)
    impacts = quantiser.impacts(scores)
    assert impacts.tolist() == [102, 255, 255, 255]
    report = quantiser.report(scores, impacts) + quantiser.report(scores, impacts)
    assert report.clipped == 4
    assert report.largest_error == pytest.approx(1.0)
