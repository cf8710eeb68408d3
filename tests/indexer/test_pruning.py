"""Terms that images keep, and their impacts, against slow plain code."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from indexer.encoding.asked import NONE_ASKED
from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch, ImageEncoder
from indexer.encoding.workers import encode_here
from indexer.impacts import ImpactParameters, keep_terms
from indexer.offsets import measure_offsets
from indexer.pruning import asked_weights, prune
from indexer.quantisation import Quantiser
from indexer.settings import IndexSettings, OffsetKind
from sparta.errors import InputError


def floats(values: list[Any]) -> NDArray[np.float32]:
    return np.array(values, np.float32)


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


QUANTISER = Quantiser.fit(9.0, 8)


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


@given(
    images=st.integers(0, 4),
    terms=st.integers(1, 40),
    levels=st.sampled_from([2, 5, 1000]),
    top_n=st.none() | st.integers(1, 45),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_terms_are_kept_as_the_slow_way_keeps_them(
    images: int, terms: int, levels: int, top_n: int | None, weighted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    # Quarters, exact in float32, of few levels: scores, and their products with weights, tie.
    scores = (random.integers(0, levels, (images, terms)) / 4).astype(np.float32)
    offset = (random.integers(0, 3, terms) / 4).astype(np.float32)
    weights = random.choice([1.0, 1.5, 3.0], terms).astype(np.float32)
    allowed = random.random(terms) < 0.8
    positions = random.integers(-1, 9, (images, terms)).astype(np.int16)
    used = weights if weighted else None
    found = keep_terms(
        TermScores(scores, positions), ImpactParameters(offset, allowed, top_n, QUANTISER, used)
    )
    given = offset.tolist(), allowed.tolist(), top_n, weights.tolist() if weighted else [1] * terms
    slow = np.array([slow_prune(row, *given) for row in scores.tolist()]).reshape(images, terms)
    assert prune(scores, offset, allowed, top_n, used).tolist() == slow.tolist()
    row, column = np.nonzero(slow)
    assert [row.tolist(), column.tolist()] == [found.row.tolist(), found.terms.tolist()]
    assert slow[row, column].tolist() == found.scores.tolist()
    assert positions[row, column].tolist() == found.positions.tolist()
    assert [part.dtype for part in found] == [np.int64, np.int32, np.float32, np.int16]


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_refused(score: float) -> None:
    scored = TermScores(np.array([[1, score]], np.float32), np.zeros((1, 2), np.int16))
    none = np.zeros(2, np.float32)
    for top_n in (1, None):
        parameters = ImpactParameters(none, np.ones(2, np.bool_), top_n, QUANTISER)
        with pytest.raises(InputError, match="not finite"):
            keep_terms(scored, parameters)


IMAGES, VOCABULARY, BATCH = 400, 20_000, 10
TRAINED = np.arange(0, VOCABULARY, 50)


class Store:
    """As many rows as images, in one shard."""

    shards = (range(IMAGES),)

    def __len__(self) -> int:
        return IMAGES


class RandomScores:
    """An encoder that draws the scores of a batch from its first row."""

    store = Store()
    batch_size = BATCH

    def allowed(self, _: str) -> NDArray[np.bool_]:
        found = np.zeros(VOCABULARY, np.bool_)
        found[TRAINED] = True
        return found

    def batches(self, rows: Iterable[int], cache: bool = False) -> Iterator[EncodedBatch]:
        waiting = list(rows)
        for start in range(0, len(waiting), BATCH):
            scores = np.zeros((len(waiting[start : start + BATCH]), VOCABULARY), np.float32)
            drawn = np.random.default_rng(waiting[start]).random((len(scores), len(TRAINED)))
            scores[:, TRAINED] = drawn
            positions = np.zeros(scores.shape, np.int16)
            nothing = cast(Any, [None] * len(scores))
            yield EncodedBatch(nothing, TermScores(scores, positions), nothing)


def index_settings(images: int, offset: OffsetKind = "mean") -> IndexSettings:
    return IndexSettings(
        models=[], features=[], photos=None, top_n=50, offset=offset, offset_images=images
    )


@pytest.mark.parametrize("offset", ["mean", "median", "minimum", "none"])
def test_offsets_are_those_of_the_whole_vocabulary(offset: OffsetKind) -> None:
    encoder = cast(ImageEncoder, RandomScores())
    found = measure_offsets(
        encode_here(encoder), encoder, index_settings(IMAGES, offset), NONE_ASKED
    )
    scores = np.concatenate([batch.scored.scores for batch in encoder.batches(range(IMAGES))])
    right = {
        "mean": scores.mean(axis=0, dtype=np.float64),
        "median": np.sort(scores, axis=0)[(IMAGES - 1) // 2],
        "minimum": scores.min(axis=0),
        "none": np.zeros(VOCABULARY),
    }[offset].astype(np.float32)
    assert found.offset.dtype == np.float32
    np.testing.assert_array_equal(found.offset, right)
    assert found.largest == (scores - right).max()


def test_memory_is_that_of_the_terms(images: int = IMAGES // 2) -> None:
    encoder = cast(ImageEncoder, RandomScores())
    tracemalloc.start()
    measure_offsets(encode_here(encoder), encoder, index_settings(images), NONE_ASKED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    whole = images * VOCABULARY * 4
    assert images * len(TRAINED) * 4 < peak < whole / 2  # it is pruned in copies
