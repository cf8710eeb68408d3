"""What training maximises."""

from __future__ import annotations

import torch
from torch import Tensor


def in_batch_cross_entropy(
    scores: Tensor,
    query_photos: Tensor,
    image_photos: Tensor,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Equation 13, negated, with the batch's other photos as negatives.

    Two captions of one photo are never each other's negatives: a column that shows the query's
    own photo is its positive (the first such column) or left out (any further one).

    Args:
        scores: [Q, B] float, f(q, v).
        query_photos: [Q] int64, the photo each caption belongs to.
        image_photos: [B] int64, the photo of each column.
        include_positive: standard cross-entropy, whose denominator holds the positive too; the
            paper prints the sum over negatives alone.
        label_smoothing: share of the target spread evenly over the columns that take part.

    Returns:
        scalar, mean over queries.

    Raises:
        ValueError: if a query's photo has no column.
    """
    same = query_photos[:, None] == image_photos[None, :]
    if not bool(same.any(dim=1).all()):
        raise ValueError("a caption's own photo is missing from the batch")
    positive = same.int().argmax(dim=1, keepdim=True)
    is_positive = torch.zeros_like(same).scatter(1, positive, True)
    candidates = ~same | is_positive
    denominator = candidates if include_positive else ~same
    log_sum = scores.masked_fill(~denominator, float("-inf")).logsumexp(dim=1)
    target = scores.gather(1, positive)[:, 0]
    if label_smoothing:
        even = (scores * candidates).sum(dim=1) / candidates.sum(dim=1)
        target = (1 - label_smoothing) * target + label_smoothing * even
    return (log_sum - target).mean()


def flops(term_scores: Tensor) -> Tensor:
    """Expected cost of scoring a random pair: Σ_t (mean over images of score_t)².

    The sparsity regulariser of learned sparse retrieval (Paria et al., arXiv 2004.05665): it
    presses hardest on terms that many images hold.

    Args:
        term_scores: [B, T] float, non-negative.
    """
    return term_scores.mean(dim=0).square().sum()
