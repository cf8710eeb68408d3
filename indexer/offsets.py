"""The first pass over a sample of images: each term's offset, and the largest score above it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from indexer.encoding.term_scores import ImageEncoder
from indexer.pruning import estimate_offsets
from indexer.settings import IndexSettings
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress

OFFSET_SAMPLE = 2000  # images at most


class TermOffsets(NamedTuple):
    """What a sample of images determines for a whole index.

    Attributes:
        offset: [V] float32, to subtract from each term's scores.
        largest: the largest score above its offset, which gets the largest impact.
    """

    offset: NDArray[np.float32]
    largest: float


def measure_offsets(
    encoder: ImageEncoder, settings: IndexSettings, progress: Progress = no_progress
) -> TermOffsets:
    """Encode the sample and estimate each term's offset.

    Args:
        encoder: of the whole corpus.
        settings: kind of offset, terms of the index, and size of the sample.
        progress: stage "offset", in images.
    """
    sample: list[Tensor] = []
    done, size = 0, settings.offset_images
    # A corpus no larger than the sample is encoded shard by shard, as the second pass will do, so
    # that its scores can be cached for it.
    whole = len(encoder.store) == size
    for rows in encoder.store.shards if whole else [_sample(encoder.store, size)]:
        for batch in encoder.batches(rows, cache=whole):
            sample.append(batch.scored.scores.cpu())
            done += len(batch.images)
            progress("offset", done, size)
    scores = torch.cat(sample)
    offset = estimate_offsets(scores, settings.offset)
    above = (scores.amax(dim=0) - offset) * encoder.allowed(settings.terms).cpu()
    return TermOffsets(offset.numpy(), float(above.max()))


def _sample(store: FeatureStore, size: int) -> list[int]:
    chosen = np.random.default_rng(0).choice(len(store), size, replace=False)
    return sorted(chosen.tolist())
