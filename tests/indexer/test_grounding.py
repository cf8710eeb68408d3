"""Groundings come back as they were packed."""

from __future__ import annotations

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.grounding import Grounding, Inputs, pack, unpack
from indexer.packing import pack_all
from indexer.postings import ImagePostings, Postings
from tests.indexer.groundings import random_inputs

INPUTS = Inputs(
    np.array([[0, 0, 1, 1], [0.25, 0.5, 0.75, 1]], np.float32),
    np.array([3, 4, 2, 1], np.int32),
    np.array([0, 0, 1, 1], np.int16),
)


@given(
    terms=st.sets(st.integers(0, 40_000), max_size=60).map(sorted),
    regions=st.sampled_from([0, 1, 3, 184, 185, 186, 255, 256, 900]),
    labels=st.sampled_from([0, 1, 70]),
    largest=st.sampled_from([254, 255, 30_521, 65_535, 250_000]),
    seed=st.integers(0, 100),
)
def test_round_trip(terms: list[int], regions: int, labels: int, largest: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    positions = random.integers(-1, regions + labels, len(terms)).astype(np.int16)
    inputs = random_inputs(regions, labels, largest, seed)
    packed = pack(Grounding(np.array(terms, np.int32), positions, inputs))
    found = unpack(packed)
    assert found.terms.tolist() == terms
    assert found.positions.tolist() == positions.tolist()
    assert np.abs(found.inputs.boxes - inputs.boxes).max(initial=0) <= 1 / 65535
    assert found.inputs.label_terms.tolist() == inputs.label_terms.tolist()
    assert found.inputs.label_regions.tolist() == inputs.label_regions.tolist()


@given(
    images=st.lists(
        st.tuples(
            st.sets(st.integers(0, 40_000), max_size=60).map(sorted),
            st.sampled_from([0, 1, 185, 186, 256]),
            st.sampled_from([0, 1, 70]),
            st.sampled_from([254, 255, 65_535, 250_000]),
        ),
        max_size=6,
    ),
    seed=st.integers(0, 100),
)
def test_many_are_packed_as_one_after_another(
    images: list[tuple[list[int], int, int, int]], seed: int
) -> None:
    random, rows = np.random.default_rng(seed), []
    for number, (ids, regions, labels, largest) in enumerate(images):
        terms = np.array(ids, np.int32)
        positions = random.integers(-1, regions + labels, len(ids)).astype(np.int16)
        inputs = random_inputs(regions, labels, largest, seed + number)
        rows.append(ImagePostings(str(number), {}, terms, terms, positions, inputs))
    alone = [pack(Grounding(row.terms, row.positions, row.inputs)) for row in rows]
    assert pack_all(Postings.of(rows)) == alone


@pytest.mark.parametrize(("regions", "size"), [(50, 1), (185, 1), (186, 2), (900, 2)])
def test_a_position_takes_a_byte_up_to_255_of_them(regions: int, size: int) -> None:
    terms, inputs = np.arange(1000), random_inputs(regions, 70, 30_521, 0)
    last = np.full(1000, regions + 69)
    sizes = [len(pack(Grounding(terms[:n], last[:n], inputs))) for n in (0, 1000)]
    assert sizes[1] - sizes[0] == 1000 * (1 + size)
    assert sizes[0] < 8 * regions + 70 * (2 + size) + 20
    assert unpack(pack(Grounding(terms, last, inputs))).positions.tolist() == last.tolist()


@given(cut=st.integers(0, 200), byte=st.integers(0, 255), place=st.integers(0, 13))
def test_a_damaged_grounding_is_an_error_or_another(cut: int, byte: int, place: int) -> None:
    packed = pack(Grounding(np.arange(1, 6), np.array([1, -1, 2, 3, 5]), INPUTS))
    if cut < len(packed):
        with pytest.raises((ValueError, struct.error)):
            unpack(packed[:cut])
    damaged = packed[:place] + bytes([byte]) + packed[place + 1 :]
    with suppress(ValueError):
        unpack(damaged)
