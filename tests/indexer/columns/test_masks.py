"""What is remembered of masks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.columns.index import REMEMBERED, Remembered


def test_only_masks_that_stay_as_they_are_are_remembered() -> None:
    calls: list[int] = []

    def count(mask: NDArray[np.bool_]) -> int:
        calls.append(1)
        return int(mask.sum())

    remembered: Remembered[int] = Remembered()
    mask = np.ones(3, np.bool_)
    assert [remembered.of(mask, count) for _ in range(2)] == [3, 3]
    mask[0] = False
    mask.flags.writeable = False
    assert [remembered.of(mask, count) for _ in range(3)] == [2, 2, 2]
    assert len(calls) == 3
    others = [np.zeros(1, np.bool_) for _ in range(REMEMBERED)]
    for other in others:
        other.flags.writeable = False
        assert remembered.of(other, count) == 0
    assert remembered.of(mask, count) == 2
    assert len(calls) == 3 + REMEMBERED + 1
