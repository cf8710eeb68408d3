"""Pruning: subtract each term's offset from the scores, then keep each image's n largest.

On real photos the paper's scores are positive for most terms of most images: a large offset that
all images share, plus a small part that distinguishes them. The n largest scores are then the wrong
ones to keep. Subtracting each term's offset over the corpus before pruning corrects this. For one
query it subtracts the same sum from every image, so that by itself it changes no ranking.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.settings import OffsetKind
from sparta.errors import InputError

IMAGES_AT_ONCE = 512

Floats = NDArray[np.float32]


class KeptTerms(NamedTuple):
    """The terms that a batch of images keeps, image after image.

    Attributes:
        row: [n] int64, the image in the batch.
        terms: [n] int32, ascending within an image.
        scores: [n] float32, above the offset.
        positions: [n] int16, the position that won each term.
    """

    row: NDArray[np.int64]
    terms: NDArray[np.int32]
    scores: Floats
    positions: NDArray[np.int16]


def estimate_offsets(scores: Floats, kind: OffsetKind) -> Floats:
    """Each term's offset over a sample of images.

    Args:
        scores: [N, V] float32 term scores.
        kind: "minimum" changes no ranking when nothing is pruned and the sample is the corpus;
            "mean" and "median" also drop scores below them; "none" is the paper's pruning.

    Returns:
        [V] float32.
    """
    offset: NDArray[np.float32] = np.zeros(scores.shape[1], np.float32)
    if kind == "mean":
        offset = scores.mean(axis=0, dtype=np.float64).astype(np.float32)
    elif kind == "median":
        middle = (len(scores) - 1) // 2
        offset = np.partition(scores, middle, axis=0)[middle]
    elif kind == "minimum":
        offset = scores.min(axis=0)
    return offset


def asked_weights(frequencies: NDArray[np.integer], power: float) -> Floats:
    """Weights of terms in the choice of those to keep: (frequency + 1)^p.

    A posting of a term that no query contains is of no use, however large its impact.

    Args:
        frequencies: [V] int64, how many texts contain each term.
        power: p, from 0 (all terms weigh the same) to 1.

    Returns:
        [V] float32, at least 1.
    """
    weights: NDArray[np.float32] = ((frequencies + 1.0) ** power).astype(np.float32)
    return weights


def prune(
    scores: Floats,
    offset: Floats | None,
    allowed: NDArray[np.bool_],
    top_n: int | None,
    weights: Floats | None = None,
) -> Floats:
    """Each image's n largest scores above the offset (equation 14, and its top-n of section 4).

    Args:
        scores: [B, V] float32 term scores.
        offset: [V] float32, or None for zero.
        allowed: [V] bool, terms that may enter the index.
        top_n: terms an image keeps at most; None keeps all.
        weights: [V] float32, positive; the n largest products of score above the offset and weight
            are kept. They decide the choice alone, not the scores returned. None for one.

    Returns:
        [B, V] float32, max(0, score - offset) where kept and 0 elsewhere; of equal scores, or
        products, the lower term ids are kept.

    Raises:
        InputError: if a score is not a number.
    """
    refuse_damaged(not np.isfinite(scores.sum()))  # one bad score spoils the sum
    if offset is not None:
        scores = np.maximum(scores - offset, 0)
    scores = scores * allowed
    if top_n is None or top_n >= scores.shape[1]:
        return scores
    return scores * largest(scores if weights is None else scores * weights, top_n)


def refuse_damaged(damaged: bool) -> None:
    """Refuse a model some of whose scores are not finite.

    Raises:
        InputError: if that is so.
    """
    if damaged:
        raise InputError("the model gives term scores that are not finite: its weights are damaged")


def largest_kept(
    scores: Floats,
    offset: Floats,
    allowed: NDArray[np.bool_],
    top_n: int | None,
    weights: Floats | None = None,
) -> float:
    """The largest score above the offset that any image keeps; arguments as for `prune`."""
    wanted = np.flatnonzero(allowed)
    if weights is not None:
        weights = weights[wanted]
    starts = range(0, len(scores), IMAGES_AT_ONCE)
    parts = (scores[start : start + IMAGES_AT_ONCE, wanted] for start in starts)
    kept = (prune(part, offset[wanted], allowed[wanted], top_n, weights) for part in parts)
    return max(float(part.max(initial=0)) for part in kept)


def largest(scores: Floats, top_n: int) -> NDArray[np.bool_]:
    """Which of each row's scores are its n < V largest, [B, V]; of equals those of lower ids.

    Of scores that are not above 0 there may be more.
    """
    smallest = _smallest(_candidates(scores, top_n), top_n)
    kept: NDArray[np.bool_] = scores >= smallest
    # Rows where more scores than there is room for are as large as the smallest kept.
    tied = (kept.sum(axis=1) > top_n) & (smallest > 0)[:, 0]
    kept[tied] = _first_of_equals(scores[tied], smallest[tied], top_n)
    return kept


def _smallest(scores: Floats, top_n: int) -> Floats:
    """[B, 1] the n-th largest score of each row."""
    return np.partition(scores, -top_n, axis=1)[:, -top_n, None]


def _candidates(scores: Floats, top_n: int) -> Floats:
    """Scores [B, fewer] with the n largest of each row, padded with -inf; a fourth of the time.

    Of groups of terms, the n-th largest maximum is no larger than the n-th largest score.
    """
    images, terms = scores.shape
    depth = max(1, terms // (4 * top_n))
    width = terms // depth
    groups = scores[:, : depth * width].reshape(images, depth, width)
    places = np.flatnonzero(scores >= _smallest(groups.max(axis=1), top_n))
    row = places // terms
    counts = np.bincount(row, minlength=images)
    column = np.arange(len(row)) - (np.cumsum(counts) - counts)[row]
    found = np.full((images, counts.max(initial=top_n)), -np.inf, np.float32)
    found[row, column] = scores.ravel()[places]
    return found


def _first_of_equals(scores: Floats, smallest: Floats, top_n: int) -> NDArray[np.bool_]:
    """Which scores to keep, [B, V], where the smallest kept has equals: those of lower ids."""
    above = scores > smallest
    level = scores == smallest
    room = top_n - above.sum(axis=1, keepdims=True)
    found: NDArray[np.bool_] = above | (level & (level.cumsum(axis=1) <= room))
    return found
