"""Superblocks with a document that may be found, and what is remembered of masks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK
from indexer.columns.masks import REMEMBERED, Remembered, occupied


@pytest.mark.parametrize("images", [0, 1, SUPERBLOCK, 5 * SUPERBLOCK + 3])
def test_superblocks_with_an_allowed_document(images: int) -> None:
    rng = np.random.default_rng(images)
    order = rng.permutation(images).astype(np.int32)
    for share in (0, 0.002, 0.5, 1):
        allowed = rng.random(images) < share
        right = [allowed[order[at : at + SUPERBLOCK]].any() for at in range(0, images, SUPERBLOCK)]
        assert occupied(order, allowed).tolist() == right


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
