"""The terms that images keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.encoding.scorer import TermScores
from indexer.impacts import ImpactParameters, keep_terms
from indexer.pruning import prune
from indexer.quantisation import Quantiser
from sparta.errors import InputError

QUANTISER = Quantiser.fit(9.0, 8)


@given(
    images=st.integers(0, 4),
    terms=st.integers(1, 40),
    levels=st.sampled_from([2, 5, 1000]),
    top_n=st.none() | st.integers(1, 45),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_same_terms_are_kept(
    images: int, terms: int, levels: int, top_n: int | None, weighted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    # Few levels, so that scores, and their products with weights, tie.
    scores = (random.integers(0, levels, (images, terms)) / 4).astype(np.float32)
    offset = (random.integers(0, 3, terms) / 4).astype(np.float32)
    weights = random.choice([1.0, 1.5, 3.0], terms).astype(np.float32)
    parameters = ImpactParameters(
        offset, random.random(terms) < 0.8, top_n, QUANTISER, weights if weighted else None
    )
    positions = random.integers(-1, 9, (images, terms)).astype(np.int16)
    scored = TermScores(scores, positions)
    found = keep_terms(scored, parameters)
    right = prune(scores, offset, parameters.allowed, top_n, parameters.weights)
    row, column = np.nonzero(right)
    assert [row.tolist(), column.tolist()] == [found.row.tolist(), found.terms.tolist()]
    assert right[row, column].tolist() == found.scores.tolist()
    assert positions[row, column].tolist() == found.positions.tolist()
    assert [part.dtype for part in found] == [np.int64, np.int32, np.float32, np.int16]


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_broken_scores_are_refused(score: float) -> None:
    scored = TermScores(np.array([[1, score]], np.float32), np.zeros((1, 2), np.int16))
    none = np.zeros(2, np.float32)
    for top_n in (1, None):
        parameters = ImpactParameters(none, np.ones(2, np.bool_), top_n, QUANTISER)
        with pytest.raises(InputError, match="not finite"):
            keep_terms(scored, parameters)
