"""The search of columns in C and in NumPy, and what is remembered for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.columns import engine
from indexer.columns import postings as in_numpy
from indexer.columns.index import REMEMBERED, ColumnIndex, Remembered
from indexer.columns.layout import LEVELS, NARROW, SUPERBLOCK, Columns, PostingRows
from indexer.store.memtable import Memtable
from tests.indexer.columns.corpus import (
    VOCABULARY,
    built,
    exact_top,
    new_images,
    random_rows,
)

try:
    from indexer.columns import native
except ImportError:  # the package was built without a compiler
    if "CI" in os.environ:
        raise
    native = None  # type: ignore[assignment]

ENGINES = [pytest.param(in_numpy, id="NumPy"), pytest.param(native, id="C")]
in_c = pytest.mark.skipif(native is None, reason="the package was built without a C compiler")
pytestmark = in_c
Corpus = tuple[PostingRows, ColumnIndex]
ALL: NDArray[np.bool_] = np.empty(0, np.bool_)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Corpus]]:
    """Some segments of 8 bits, some of 12, and some of 16."""
    folder = tmp_path_factory.mktemp("engine")
    made: dict[int, list[Corpus]] = {}
    for bits in (8, 12, 16):
        for images in (9000, 700, SUPERBLOCK, 5):
            rows = random_rows(images, bits, seed=images + bits)
            corpus = rows, built(folder / f"{images}-{bits}", rows, bits)
            made.setdefault(bits, []).append(corpus)
    return made


@contextmanager
def using_avx2(wanted: bool) -> Iterator[None]:
    """Search with the processor's AVX2, or as one without it does."""
    former = native._native.use_avx2(wanted)
    yield
    native._native.use_avx2(former)


def test_the_compiled_engine_is_used() -> None:
    assert engine.best_documents is native.best_documents


def test_without_it_one_warning_says_what_to_do() -> None:
    code = """
import sys
sys.modules["indexer.columns.native._native"] = None
from indexer.columns import engine
from indexer.columns import postings as in_numpy
from indexer import grounding
from indexer.filters import evaluate
from indexer.store import snapshot
assert snapshot.best_documents is in_numpy.best_documents and grounding.find_winners is None
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == (
        "the search kernel is missing, and a search takes some 400 times as long: install a wheel "
        "of VisualSparta, or a C compiler and then VisualSparta again\n"
    )


@settings(max_examples=300)
@given(data=st.data())
def test_the_best_of_segments_are_exact(
    corpora: dict[int, list[Corpus]], data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from([8, 12, 16]), label="bits")
    count = data.draw(st.integers(0, 4), label="segments")
    segments = corpora[chosen][:count]
    term = st.integers(0, VOCABULARY - 1)
    terms = data.draw(st.dictionaries(term, st.integers(1, 4), max_size=12), label="terms")
    k = data.draw(st.sampled_from([1, 10, 400]) | st.integers(1, 40), label="k")
    share = data.draw(st.sampled_from([None, 0.0, 0.01, 0.5]), label="share allowed")
    fits = sum(terms.values()) * (2**chosen - 1 + LEVELS) < NARROW
    kind = data.draw(st.sampled_from([np.uint16, np.uint32] if fits else [np.uint32]), label="sums")
    firsts = np.cumsum([0, *(len(index) for _, index in segments)])
    allowed = ALL
    if share is not None:
        allowed = np.random.default_rng(k).random(int(firsts[-1])) < share
    right = []
    occupied = [ALL]
    for (rows, index), first in zip(segments, firsts, strict=False):
        own = allowed[first : first + len(index)] if len(allowed) else None
        if own is not None:
            occupied.append(in_numpy.occupied(index.columns.order, own))
        right += [(first + d, score) for d, score in exact_top(rows, terms, k, own)]
    best = sorted(right, key=lambda pair: (-pair[1], pair[0]))[:k]
    for one, avx2 in ((in_numpy, True), (native, True), (native, False)):
        with using_avx2(avx2):
            documents, scores = one.best_documents(
                [index.columns for _, index in segments],
                firsts[:count],
                np.array(list(terms), np.int64),
                np.array(list(terms.values()), kind),
                allowed,
                np.concatenate(occupied) if share is not None else ALL,
                k,
            )
        found = list(zip(documents.tolist(), scores.tolist(), strict=True))
        assert (documents.dtype, scores.dtype) == (np.int32, np.int64)
        assert sorted(found, key=lambda pair: (-pair[1], pair[0]))[:k] == best
        if count == 1:
            assert found == best


def ordered(scores: dict[int, int]) -> list[tuple[int, int]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


@pytest.mark.parametrize("one", ENGINES)
@pytest.mark.parametrize("bits", [8, 12, 16])
@pytest.mark.parametrize("floor", [0, 1, 40, 10**6])
def test_the_best_of_the_newest_and_all_that_tie_with_the_last(
    one: ModuleType, bits: int, floor: int
) -> None:
    own = new_images(300, bits)
    newest = Memtable.empty(VOCABULARY, bits).after(own[:17]).after(own[17:])
    impacts = newest.impacts(range(300), range(VOCABULARY)).astype(np.int64)
    for image, row in zip(own, impacts, strict=True):
        assert row[image.terms].tolist() == image.impacts.tolist()
        assert row.sum() == image.impacts.sum()
    rng = np.random.default_rng(bits)
    for draw in range(16):
        terms = rng.permutation(VOCABULARY)[: draw % 9]
        kind: Any = np.uint16 if draw % 2 and bits < 16 else np.uint32
        counts = rng.integers(1, 4, len(terms)).astype(kind)
        allowed = rng.random(300) < 0.3 if draw % 3 else ALL
        k = [1, 3, 50, 300][draw % 4]
        numbers, scores = one.best_of_newest(newest.columns, 300, terms, counts, allowed, k, floor)
        sums = (impacts[:, terms] @ counts) * (allowed if len(allowed) else 1)
        least = max(1, floor, np.sort(sums)[-k])
        right = {image: int(sums[image]) for image in np.flatnonzero(sums >= least).tolist()}
        found = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        assert ordered(found)[:k] == ordered(right)[:k]
        assert found == right or one is in_numpy  # which may return more
        assert (numbers.dtype, scores.dtype) == (np.int32, np.int64)


@pytest.mark.parametrize("bits", [8, 12])
def test_single_impacts_in_c_are_those_in_numpy(
    corpora: dict[int, list[Corpus]], bits: int
) -> None:
    columns = corpora[bits][1][1].columns
    rows = np.arange(-1, len(columns.maxima))
    positions = np.random.default_rng(0).permutation(len(columns.order))
    np.testing.assert_array_equal(
        native.impacts_at(columns, positions, rows), in_numpy.impacts_at(columns, positions, rows)
    )
    for row in rows[1:].tolist():
        np.testing.assert_array_equal(
            native.impacts_of_row(columns, row), in_numpy.impacts_of_row(columns, row)
        )


def searched(columns: Columns, **changed: Any) -> None:
    arguments: dict[str, Any] = {
        "segments": [columns],
        "firsts": np.zeros(1, np.int64),
        "terms": np.zeros(1, np.int64),
        "counts": np.ones(1, np.uint16),
        "allowed": ALL,
        "occupied": ALL,
        "k": 3,
    }
    native.best_documents(**(arguments | changed))


def test_wrong_arguments_of_the_kernel_are_refused(
    corpora: dict[int, list[Corpus]], tmp_path: Path
) -> None:
    columns = corpora[8][0][1].columns
    searched(columns)
    for term in (-1, VOCABULARY):
        with pytest.raises(ValueError, match=f"{term} is not from 0 to {VOCABULARY - 1}"):
            searched(columns, terms=np.array([term]))
    with pytest.raises(ValueError, match="too short"):
        searched(columns, firsts=np.empty(0, np.int64))
    with pytest.raises(ValueError, match="too short"):
        searched(columns, segments=[columns, columns], firsts=np.zeros(1, np.int64))
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        searched(columns, terms=np.zeros(4, np.int64)[::2])
    with pytest.raises(ValueError, match="is not from"):
        native.impacts_at(columns, np.array([len(columns.order)]), np.array([0]))
    with pytest.raises(ValueError, match="is not from"):
        native.impacts_of_row(columns, len(columns.maxima))


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
