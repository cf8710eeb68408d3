"""Drift of the means of impacts."""

from __future__ import annotations

import numpy as np

from indexer.drift import drift


def test_the_share_of_impacts_that_moved() -> None:
    built = np.array([1, 3, 0], np.float32)
    assert drift(built, built) == 0
    assert drift(built, np.array([0, 0, 4.0])) == 2
    assert drift(built, np.array([2, 2, 0.0])) == 0.5
    assert drift(np.zeros(3), np.ones(3)) == 0
