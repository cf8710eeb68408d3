"""Postings and groundings on disk come back as they were, and name what won the terms of images."""

import struct
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer import grounding as winners_module
from indexer.grounding import Grounding, Layout, Winner, pack_all, unpack
from indexer.postings import ImagePostings, Inputs, Postings
from sparta.errors import InputError
from tests.indexer.random_postings import random_postings
from tests.indexer.vocabulary import TOKENIZER
from tests.reference.searcher import winner


def pack(grounding: Grounding) -> bytes:
    """One image alone."""
    terms = grounding.terms.astype(np.int32)
    positions = grounding.positions.astype(np.int16)
    image = ImagePostings("", {}, terms, terms, positions, grounding.inputs)
    [packed] = pack_all(Postings.of([image]))
    return packed


def random_inputs(regions: int, labels: int, largest: int, seed: int) -> Inputs:
    """Of so many regions and label tokens, with vocabulary ids up to the largest."""
    random = np.random.default_rng(seed)
    return Inputs(
        random.random((regions, 4)).astype(np.float32),
        random.integers(0, largest, labels, endpoint=True, dtype=np.int32),
        np.sort(random.integers(0, max(1, regions), labels, dtype=np.int16)),
    )


NONE = np.empty(0, np.int32)
INPUTS = Inputs(
    np.array([[0, 0, 1, 1], [0.25, 0.5, 0.75, 1]], np.float32),
    np.array([3, 4, 2, 1], np.int32),
    np.array([0, 0, 1, 1], np.int16),
)


@given(
    images=st.lists(
        st.tuples(
            st.sets(st.integers(0, 40_000), max_size=60).map(sorted),
            st.sampled_from([0, 1, 3, 184, 185, 186, 255, 256, 900]),
            st.sampled_from([0, 1, 70]),
            st.sampled_from([254, 255, 30_521, 65_535, 250_000]),
        ),
        max_size=6,
    ),
    seed=st.integers(0, 100),
)
def test_groundings_come_back_as_they_were_packed(
    images: list[tuple[list[int], int, int, int]], seed: int
) -> None:
    random, rows = np.random.default_rng(seed), []
    for number, (ids, regions, labels, largest) in enumerate(images):
        terms = np.array(ids, np.int32)
        positions = random.integers(-1, regions + labels, len(ids)).astype(np.int16)
        inputs = random_inputs(regions, labels, largest, seed + number)
        rows.append(ImagePostings(str(number), {}, terms, terms, positions, inputs))
    for row, packed in zip(rows, pack_all(Postings.of(rows)), strict=True):
        found, inputs = unpack(packed), row.inputs
        assert packed == pack(Grounding(row.terms, row.positions, inputs))
        assert found.terms.tolist() == row.terms.tolist()
        assert found.positions.tolist() == row.positions.tolist()
        assert np.abs(found.inputs.boxes - inputs.boxes).max(initial=0) <= 1 / 65535
        assert found.inputs.label_terms.tolist() == inputs.label_terms.tolist()
        assert found.inputs.label_regions.tolist() == inputs.label_regions.tolist()


VOCABULARY = ["[PAD]", "dog", "brown", "run", "##s", "ball", "the"]
PACKED = pack(Grounding(np.array([1, 2, 3, 4, 5]), np.array([1, -1, 2, 3, 5]), INPUTS))


KERNELS = [vars(winners_module)["find_winners"], None]  # twice None where nothing was compiled


def winners(
    packed: list[bytes], terms: NDArray[np.int64], wanted: NDArray[np.bool_], vocabulary: list[str]
) -> list[Winner]:
    """Of both, in C and by unpacking each image."""
    found = []
    for kernel in KERNELS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(winners_module, "find_winners", kernel)
            found.append(winners_module.winners(packed, terms, wanted, vocabulary))
    assert found[0] == found[1]
    return found[0]


IMAGES = st.tuples(
    st.sets(st.integers(0, 400), max_size=60).map(sorted),
    st.sampled_from([0, 1, 3, 184, 255, 256]),
    st.sampled_from([0, 1, 70]),
)


@given(
    images=st.lists(IMAGES, max_size=5),
    asked=st.lists(st.integers(0, 500), max_size=20),
    largest=st.sampled_from([200, 500]),
    seed=st.integers(0, 100),
)
def test_winners_equal_the_reference(
    images: list[tuple[list[int], int, int]], asked: list[int], largest: int, seed: int
) -> None:
    vocabulary = [f"{'##' * (number % 2)}word{number}" for number in range(501)]
    random = np.random.default_rng(seed)
    packed = []
    for terms, regions, labels in images:
        labels *= regions > 0
        positions = random.integers(-1, regions + labels, len(terms))
        inputs = random_inputs(regions, labels, largest, seed)
        packed.append(pack(Grounding(np.array(terms, np.int32), positions, inputs)))
    wanted = random.random((len(packed), len(asked))) < 0.7
    right = [
        winner(unpack(data), term, vocabulary)
        for data, chosen in zip(packed, wanted, strict=True)
        for term, is_wanted in zip(asked, chosen, strict=True)
        if is_wanted
    ]
    assert winners(packed, np.array(asked, np.int64), wanted, vocabulary) == right


def changed(place: int, value: int) -> bytes:
    return PACKED[:place] + bytes([value]) + PACKED[place + 1 :]


AT = Layout.of(PACKED, 0, len(PACKED))


@pytest.mark.parametrize(
    "damaged",
    [
        PACKED[:-1],
        PACKED + b"\0",
        b"",
        changed(0, 3),
        changed(AT.positions, 6),  # of six positions, the first of which is 0
        changed(AT.label_regions + 3, 2),
        changed(AT.label_terms + 3, 7),
        # A term too many, in place of an escaped gap; 20 bytes of positions are left.
        pack(Grounding(np.array([300]), np.array([0]), INPUTS)).replace(b"\xff\x2d", b"\x01\x01"),
    ],
)
def test_damage_is_an_error(damaged: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    terms, wanted = np.arange(1, 6), np.ones((2, 5), np.bool_)
    for kernel in KERNELS:
        monkeypatch.setattr(winners_module, "find_winners", kernel)
        for packed in ([damaged, PACKED], [PACKED, damaged]):
            with pytest.raises((ValueError, IndexError, struct.error)):
                winners_module.winners(packed, terms, wanted, VOCABULARY)


@given(place=st.integers(0, len(PACKED) - 1), value=st.integers(0, 255))
def test_any_damage_is_an_error_or_another_winner(place: int, value: int) -> None:
    terms, wanted = np.arange(1, 6), np.ones((1, 5), np.bool_)
    with suppress(ValueError, IndexError):
        assert len(winners([changed(place, value)], terms, wanted, VOCABULARY)) == 5


@pytest.mark.parametrize("term", [127, 255, 256, 65_535, 70_000])
@pytest.mark.parametrize(("impact", "position"), [(15, 126), (255, 127), (256, 128), (65_535, 899)])
def test_what_is_saved_comes_back(tmp_path: Path, term: int, impact: int, position: int) -> None:
    rows = [replace(one, image_id=f"{n} é") for n, one in enumerate(random_postings(TOKENIZER, 20))]
    nothing = replace(rows[0], terms=NONE, impacts=NONE, positions=NONE.astype(np.int16))
    postings = Postings.of([*rows, replace(nothing, inputs=random_inputs(0, 0, 1, 0))])
    for array, largest in (
        (postings.terms, term),
        (postings.impacts, impact),
        (postings.positions, position),
        (postings.label_terms, term),
        (postings.label_regions, position),
    ):
        array[-1] = largest
    postings.save(tmp_path / "p.npz")
    found = Postings.load(tmp_path / "p.npz")
    assert (found.ids, found.metadata) == (postings.ids, postings.metadata)
    for field in fields(Postings)[2:-1]:  # all arrays; there are no vectors
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
