"""Postings on disk: what comes back, how small they are, and what is refused."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from indexer.grounding import Inputs
from indexer.postings import ImagePostings, Postings
from sparta.errors import InputError


def random_rows(largest_term: int, largest_impact: int, largest_position: int) -> Postings:
    rng = np.random.default_rng(largest_term + largest_impact + largest_position)
    rows = []
    for i in range(20):
        terms = np.unique(rng.integers(0, largest_term, 50).astype(np.int32))
        terms[-1:] = largest_term
        impacts = rng.integers(1, largest_impact + 1, len(terms)).astype(np.int32)
        positions = rng.integers(-1, largest_position + 1, len(terms)).astype(np.int16)
        inputs = Inputs(
            rng.random((i % 3, 4)).astype(np.float32),
            rng.integers(0, largest_term + 1, i % 4, dtype=np.int32),
            rng.integers(0, largest_position + 1, i % 4, dtype=np.int16),
        )
        rows.append(ImagePostings(f"{i:02d} é", {"width": i}, terms, impacts, positions, inputs))
    nothing = Inputs(*(part[:0] for part in vars(inputs).values()))
    rows.append(ImagePostings("none", {}, terms[:0], impacts[:0], positions[:0], nothing))
    return Postings.of(rows)


@pytest.mark.parametrize("term", [127, 255, 256, 65_535, 70_000])
@pytest.mark.parametrize(("impact", "position"), [(15, 126), (255, 127), (256, 128), (65_535, 899)])
def test_what_is_saved_comes_back(tmp_path: Path, term: int, impact: int, position: int) -> None:
    postings = random_rows(term, impact, position)
    postings.save(tmp_path / "p.npz")
    found = Postings.load(tmp_path / "p.npz")
    assert (found.ids, found.metadata) == (postings.ids, postings.metadata)
    for field in fields(Postings)[2:]:
        own, loaded = getattr(postings, field.name), getattr(found, field.name)
        assert (loaded.dtype, loaded.shape) == (own.dtype, own.shape), field.name
        np.testing.assert_array_equal(loaded, own)
    assert [path.name for path in tmp_path.iterdir()] == ["p.npz"]


def test_a_posting_takes_four_bytes(tmp_path: Path) -> None:
    many = np.arange(30_000, dtype=np.int32)
    starts = np.array([0, len(many)])
    postings = Postings.without_grounding(["i"], [{}], starts, many, many % 255 + 1)
    replace(postings, positions=(many % 51 - 1).astype(np.int16)).save(tmp_path / "p.npz")
    assert (tmp_path / "p.npz").stat().st_size < 4.1 * len(many)


@pytest.mark.parametrize("content", [b"", b"letters", b"PK\x03\x04"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.npz").write_bytes(content)
    with pytest.raises(InputError, match="not a postings file"):
        Postings.load(tmp_path / "p.npz")


@pytest.mark.parametrize("cuts", [[0, 21], [0, 0, 4, 5, 21], [0, 20, 21, 21]])
def test_parts_joined_are_the_whole(cuts: list[int]) -> None:
    postings = random_rows(70_000, 255, 127)
    found = Postings.joined([postings.part(slice(*pair)) for pair in pairwise(cuts)])
    for field in fields(Postings):
        own, joined = getattr(postings, field.name), getattr(found, field.name)
        np.testing.assert_array_equal(joined, own)
        assert not isinstance(own, np.ndarray) or joined.dtype == own.dtype, field.name
