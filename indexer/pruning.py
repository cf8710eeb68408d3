"""Pruning: subtract each term's offset from the scores, then keep each image's n largest.

On real photos the paper's scores are positive for most terms of most images: a large offset that
all images share, plus a small part that distinguishes them. The n largest scores are then the wrong
ones to keep. Subtracting each term's offset over the corpus before pruning corrects this. For one
query it subtracts the same sum from every image, so that by itself it changes no ranking.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from indexer.settings import OffsetKind

IMAGES_AT_ONCE = 512


def estimate_offsets(scores: Tensor, kind: OffsetKind) -> Tensor:
    """Each term's offset over a sample of images.

    Args:
        scores: [N, V] float32 term scores.
        kind: "minimum" changes no ranking when nothing is pruned and the sample is the corpus;
            "mean" and "median" also drop scores below them; "none" is the paper's pruning.

    Returns:
        [V] float32.
    """
    if kind == "mean":
        return scores.mean(dim=0, dtype=torch.float64).float()
    if kind == "median":
        return scores.median(dim=0).values
    if kind == "minimum":
        return scores.min(dim=0).values
    return torch.zeros(scores.shape[1], device=scores.device)


def asked_weights(frequencies: Tensor, power: float) -> Tensor:
    """Weights of terms in the choice of those to keep: (frequency + 1)^p.

    A posting of a term that no query contains is of no use, however large its impact.

    Args:
        frequencies: [V] int64, how many texts contain each term.
        power: p, from 0 (all terms weigh the same) to 1.

    Returns:
        [V] float32, at least 1.
    """
    return (frequencies.double() + 1).pow(power).float()


def prune(
    scores: Tensor,
    offset: Tensor | None,
    allowed: Tensor,
    top_n: int | None,
    weights: Tensor | None = None,
) -> Tensor:
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
        ValueError: if a score is not a number.
    """
    if not torch.isfinite(scores.sum()):  # one bad score spoils the sum
        raise ValueError("the model gives term scores that are not finite: it is broken")
    if offset is not None:
        scores = (scores - offset).clamp_min_(0)
    scores = scores * allowed
    if top_n is None or top_n >= scores.shape[1]:
        return scores
    return scores * _largest(scores if weights is None else scores * weights, top_n)


def largest_kept(
    scores: Tensor,
    offset: Tensor,
    allowed: Tensor,
    top_n: int | None,
    weights: Tensor | None = None,
) -> float:
    """The largest score above the offset that any image keeps; arguments as for `prune`."""
    wanted = allowed.nonzero()[:, 0]
    if weights is not None:
        weights = weights[wanted]
    parts = (part.index_select(1, wanted) for part in scores.split(IMAGES_AT_ONCE))
    kept = (prune(part, offset[wanted], allowed[wanted], top_n, weights) for part in parts)
    return max(float(part.max()) for part in kept)


def _largest(scores: Tensor, top_n: int) -> Tensor:
    """Which of each row's scores are its n largest, [B, V] bool; of equals those of lower ids."""
    smallest, following = _nth_largest(scores, top_n)
    kept = scores >= smallest
    # Rows where more scores than there is room for are as large as the smallest kept.
    tied = ((smallest == following) & (smallest > 0))[:, 0]
    kept[tied] = _first_of_equals(scores[tied], smallest[tied], top_n)
    return kept


def _nth_largest(scores: Tensor, top_n: int) -> tuple[Tensor, Tensor]:
    """Each row's n-th and (n + 1)-th largest scores, [B, 1] each."""
    if scores.device.type == "cpu":
        # NumPy sorts a whole row with the processor's vector instructions in a fifth of the time
        # that torch takes to select without them.
        ordered = torch.from_numpy(np.sort(scores.numpy(), axis=1))
        return ordered[:, -top_n, None], ordered[:, -top_n - 1, None]
    best = scores.topk(top_n + 1, dim=1).values
    return best[:, -2:-1], best[:, -1:]


def _first_of_equals(scores: Tensor, smallest: Tensor, top_n: int) -> Tensor:
    """Which scores to keep, [B, V], where the smallest kept has equals: those of lower ids."""
    above = scores > smallest
    level = scores == smallest
    room = top_n - above.sum(dim=1, keepdim=True)
    return above | (level & (level.cumsum(dim=1) <= room))
