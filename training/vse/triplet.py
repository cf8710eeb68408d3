"""The hinge-based triplet loss of VSE++ (GPO equation 1)."""

from __future__ import annotations

from torch import Tensor


def triplet(
    similarities: Tensor, different: Tensor, margin: float = 0.2, hardest: bool = True
) -> Tensor:
    """GPO equation 1: each positive pair should exceed its negatives by a margin.

    Two captions of one photo are never each other's negatives; published implementations exclude
    only the diagonal.

    Args:
        similarities: [B, B] float, text i against image j; positive pairs on the diagonal.
        different: [B, B] bool, False where text i and image j belong to one photo.
        margin: α.
        hardest: only the hardest negative of each text and of each image counts, as printed;
            False sums over all of them, as in the first, warm-up epoch.

    Returns:
        scalar, sum over the batch and both directions. A text or image without negatives adds 0.
    """
    positive = similarities.diagonal()
    texts = violations(positive, similarities, different, margin)
    images = violations(positive, similarities.T, different.T, margin)
    return over_negatives(texts, hardest).sum() + over_negatives(images, hardest).sum()


def violations(positive: Tensor, negatives: Tensor, different: Tensor, margin: float) -> Tensor:
    """[margin - positive + negative]⁺ of every pair, 0 where the pair is no negative.

    Args:
        positive: [B, *] float, similarity of each anchor to its positive.
        negatives: [B, B, *] float, anchor i against candidate j.
        different: [B, B, *] bool.
        margin: α.

    Returns:
        [B, B, *] float, as the trailing dimensions broadcast.
    """
    return (margin - positive[:, None] + negatives).relu().masked_fill(~different, 0.0)


def over_negatives(costs: Tensor, hardest: bool) -> Tensor:
    """The largest cost over the candidates, or the sum of all: [B, B, *] -> [B, *]."""
    return costs.amax(dim=1) if hardest else costs.sum(dim=1)
