"""The objectives of VisualSparta: equation 13, a teacher's soft targets, and sparsity."""

from __future__ import annotations

import torch
from torch import Tensor

from sparta.errors import InputError


def in_batch_cross_entropy(
    scores: Tensor,
    query_photos: Tensor,
    image_photos: Tensor,
    include_positive: bool = True,
    label_smoothing: float = 0.0,
) -> Tensor:
    """Equation 13, negated, with the batch's other photos as negatives.

    Two captions of one photo are never each other's negatives: of the columns that show the
    query's photo, the first is its positive and any further one is left out.

    Args:
        scores: [Q, B] float, f(q, v).
        query_photos: [Q] int64, the photo each caption describes.
        image_photos: [B] int64, the photo of each column.
        include_positive: whether the denominator includes the positive, as in standard
            cross-entropy; the printed equation sums over the negatives alone.
        label_smoothing: share of the target spread evenly over the positive and the negatives.

    Returns:
        scalar, mean over queries.

    Raises:
        ValueError: if a query's photo has no column.
        InputError: if the denominator is empty, as in a batch of one photo without the positive.
    """
    same = query_photos[:, None] == image_photos[None, :]
    if not bool(same.any(dim=1).all()):
        raise ValueError("the batch lacks the photo of one of its captions")
    positive = same.int().argmax(dim=1, keepdim=True)
    is_positive = torch.zeros_like(same).scatter(1, positive, True)
    candidates = ~same | is_positive
    denominator = candidates if include_positive else ~same
    if not bool(denominator.any(dim=1).all()):
        raise InputError(
            "include_positive: false needs a second photo in every batch, and one shows a single "
            "photo: raise batch_size, train on more photos, or set include_positive=true"
        )
    log_sum = scores.masked_fill(~denominator, float("-inf")).logsumexp(dim=1)
    target = scores.gather(1, positive)[:, 0]
    if label_smoothing:
        even = (scores * candidates).sum(dim=1) / candidates.sum(dim=1)
        target = (1 - label_smoothing) * target + label_smoothing * even
    return (log_sum - target).mean()


def soft_cross_entropy(scores: Tensor, targets: Tensor, image_to_text: float = 0.5) -> Tensor:
    """Cross-entropy against a teacher's distribution over the batch, in both directions.

    D2S (arXiv 2402.17535), probabilistic distillation. From image to text, scores are first
    centred for each query over the photos, as the teacher's are: longer queries have larger sums.

    Args:
        scores: [Q, B] float, f(q, v) divided by the temperature.
        targets: [Q, B] float, the teacher's similarities divided by its temperature.
        image_to_text: share of that direction, 0 to 1.

    Returns:
        scalar, mean over queries and over images.
    """
    centred = scores - scores.mean(dim=1, keepdim=True)
    to_images = -(targets.softmax(dim=1) * scores.log_softmax(dim=1)).sum(dim=1).mean()
    to_texts = -(targets.softmax(dim=0) * centred.log_softmax(dim=0)).sum(dim=0).mean()
    return (1 - image_to_text) * to_images + image_to_text * to_texts


def term_score_error(scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean squared difference from a teacher's term scores.

    Args:
        scores: [B, T] float.
        targets: [B, T] float.
        weights: [T] float, of the terms: how often the batch's queries contain each.

    Returns:
        scalar, mean over images and the queries' terms; 0 if all weights are.
    """
    errors = (scores - targets).square().mean(dim=0)
    return (errors * weights).sum() / weights.sum().clamp(min=1)


def flops(term_scores: Tensor) -> Tensor:
    """Expected cost of scoring a random pair: Σ_t (mean over images of score_t)².

    The FLOPS regulariser of learned sparse retrieval (Paria et al., arXiv 2004.05665), which
    penalises terms with scores in many images most.

    Args:
        term_scores: [B, T] float, non-negative.

    Returns:
        scalar.
    """
    return term_scores.mean(dim=0).square().sum()
