"""The first pass over a sample of images: each term's offset, and the largest score kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.asked import AskedTerms
from indexer.encoding.term_scores import WINDOW, ImageEncoder
from indexer.encoding.workers import EncoderMap
from indexer.pruning import estimate_offsets, largest_kept
from indexer.settings import IndexSettings
from sparta.progress import Progress, no_progress

OFFSET_SAMPLE = 2000  # images at most


class TermOffsets(NamedTuple):
    """What a sample of images determines for a whole index.

    Attributes:
        offset: [V] float32, to subtract from each term's scores.
        largest: the largest score above its offset that an image of the sample keeps, which gets
            the largest impact.
    """

    offset: NDArray[np.float32]
    largest: float


def measure_offsets(
    encode: EncoderMap,
    encoder: ImageEncoder,
    settings: IndexSettings,
    asked: AskedTerms,
    progress: Progress = no_progress,
) -> TermOffsets:
    """Encode the sample, estimate each term's offset, and prune the sample as the corpus will be.

    Impacts have few levels, which should not be spent on scores that no image keeps. Scores of the
    corpus above the sample's largest get the largest impact too; the manifest counts them.

    Args:
        encode: does the work.
        encoder: of the whole corpus.
        settings: kind of offset, terms of the index, top-n, and size of the sample.
        asked: weights of terms in the choice.
        progress: stage "offset", in images.
    """
    allowed = encoder.allowed(settings.terms)
    wanted = np.flatnonzero(allowed)  # the others score 0
    done, size = 0, settings.offset_images
    sample = np.empty((size, len(wanted)), np.float32)
    # A corpus no larger than the sample is encoded shard by shard, as the second pass will do, so
    # that its scores can be cached for it.
    whole = len(encoder.store) == size
    units = encoder.store.shards if whole else _sample(encoder, size)
    for scores in encode(partial(_scores, wanted=wanted, cache=whole), units):
        sample[done : done + len(scores)] = scores
        done += len(scores)
        progress("offset", done, size)
    offset = np.zeros(len(allowed), np.float32)
    offset[wanted] = estimate_offsets(sample, settings.offset)
    weights = None if asked.weights is None else asked.weights[wanted]
    largest = largest_kept(sample, offset[wanted], allowed[wanted], settings.top_n, weights)
    return TermOffsets(offset, largest)


def _sample(encoder: ImageEncoder, size: int) -> list[list[int]]:
    """Rows drawn from all, as many at once as the encoder sorts by length together."""
    chosen = np.random.default_rng(0).choice(len(encoder.store), size, replace=False)
    rows, window = sorted(chosen.tolist()), WINDOW * encoder.batch_size
    return [rows[start : start + window] for start in range(0, size, window)]


def _scores(
    encoder: ImageEncoder, rows: Sequence[int], wanted: NDArray[np.int64], cache: bool
) -> NDArray[np.float32]:
    """[n, T] the term scores of n rows, of the wanted terms."""
    batches = encoder.batches(rows, cache)
    return np.concatenate([batch.scored.scores[:, wanted] for batch in batches])
