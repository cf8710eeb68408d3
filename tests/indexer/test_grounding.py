"""Groundings come back as they were packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.grounding import pack, unpack


@given(
    terms=st.sets(st.integers(0, 40_000), max_size=60).map(sorted),
    most=st.sampled_from([3, 254, 255, 256, 900]),
    boxes=st.integers(0, 5),
    seed=st.integers(0, 100),
)
def test_round_trip(terms: list[int], most: int, boxes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    regions = random.integers(-1, most + 1, len(terms)).astype(np.int16)
    corners = random.random((boxes, 4)).astype(np.float32)
    found = unpack(pack(np.array(terms, np.int32), regions, corners))
    assert found.terms.tolist() == terms
    assert found.regions.tolist() == regions.tolist()
    assert np.abs(found.boxes - corners).max(initial=0) <= 1 / 65535
    for term, region in zip(terms, regions.tolist(), strict=True):
        assert found.region(term) == (None if region < 0 else region)
    assert found.region(40_001) is None


def test_boxes_of_regions() -> None:
    boxes = np.array([[0, 0, 1, 1], [0.25, 0.5, 0.75, 1]], np.float32)
    found = unpack(pack(np.array([3]), np.array([1]), boxes))
    assert found.box(found.region(3)) == pytest.approx((0.25, 0.5, 0.75, 1), abs=1e-5)
    assert found.box(None) is None
    assert found.box(2) is None
