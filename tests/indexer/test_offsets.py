"""The first pass holds the scores of the index's terms alone, not of the whole vocabulary."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from indexer.encoding.asked import NONE_ASKED
from indexer.encoding.scorer import TermScores
from indexer.encoding.term_scores import EncodedBatch, ImageEncoder
from indexer.encoding.workers import encode_here
from indexer.offsets import measure_offsets
from indexer.settings import IndexSettings, OffsetKind

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


def settings(images: int, offset: OffsetKind = "mean") -> IndexSettings:
    return IndexSettings(
        models=[], features=[], photos=None, top_n=50, offset=offset, offset_images=images
    )


@pytest.mark.parametrize("offset", ["mean", "median", "minimum", "none"])
def test_offsets_are_those_of_the_whole_vocabulary(offset: OffsetKind) -> None:
    encoder = cast(ImageEncoder, RandomScores())
    found = measure_offsets(encode_here(encoder), encoder, settings(IMAGES, offset), NONE_ASKED)
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
    measure_offsets(encode_here(encoder), encoder, settings(images), NONE_ASKED)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    whole = images * VOCABULARY * 4
    assert images * len(TRAINED) * 4 < peak < whole / 2  # it is pruned in copies
