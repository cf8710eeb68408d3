"""Losses for several embeddings per image (MV-VSE section 3.3).

With one positive and one negative similarity per view, a loss for single embeddings has four
variants: on either side it can use each view's similarity or the best view's:

    average: each view's positive against that view's negatives (equation 8)
    max:     the best view's positive against the best views' negatives (equation 9)
    rough:   each view's positive against the best views' negatives (equation 13)
    low:     the best view's positive against each view's negatives (published code only)

`upper` (equations 10-12) is rough where even the best view violates the margin and max elsewhere,
so that max <= upper <= rough (equation 14) for any loss that decreases as the positive increases;
for the triplet loss, max is 0 there. With one view all variants equal the plain loss.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import Tensor

from training.vse.triplet import over_negatives, violations

MultiViewVariant = Literal["average", "max", "rough", "upper", "joint", "code"]
_CODE_MARGIN = 0.2
_Cost = Callable[[Tensor, Tensor], Tensor]


def multi_view_triplet(
    similarities: Tensor,
    different: Tensor,
    margin: float = 0.2,
    kind: MultiViewVariant = "joint",
    weight: float = 0.7,
    hardest: bool = True,
) -> Tensor:
    """MV-VSE equations 8-15 over GPO's triplet loss.

    "joint" (equation 15, the paper's objective) is weight·max + (1 - weight)·upper. The published
    code trains another loss, kind "code": weight·rough + (1 - weight)·low. It has no indicator
    and no max, and its 0.7 weights the bound instead of max. Only "joint" behaves as the text of
    the paper describes: a view need not match a caption that another view already matches.

    Args:
        similarities: [B, B, K] float, text i against view k of image j; where i = j, a positive.
        different: [B, B] bool, False where text i and image j belong to one photo: no negatives.
        margin: α.
        kind: "average", "max", "rough", "upper", "joint" or "code".
        weight: λ of "joint" and "code".
        hardest: only the hardest negative counts, as printed: of each view where the negatives
            are per view, of the best views otherwise. False sums over all negatives, as the
            warm-up epoch of the plain triplet loss does; "upper" then has one indicator per
            negative, so that equation 14 holds.

    Returns:
        scalar: mean over views, sum over the batch and both directions ("code": a mean over both,
        as published).

    Raises:
        ValueError: for an unknown kind.
    """

    def direction(similarities: Tensor, different: Tensor, kind: str) -> Tensor:
        def cost(positive: Tensor, negatives: Tensor) -> Tensor:
            return violations(_own(positive), negatives, different[:, :, None], margin)

        def failed(best: Tensor) -> Tensor:
            return cost(best, best) > 0

        costs = _by_view(similarities, kind, cost, failed)
        return over_negatives(costs, hardest).mean(dim=1).sum()

    total = _both_directions(direction, similarities, different, _parts(kind, weight))
    return total / (2 * len(different)) if kind == "code" else total


def multi_view_softmax(
    similarities: Tensor,
    different: Tensor,
    temperature: float = 0.05,
    kind: MultiViewVariant = "joint",
    weight: float = 0.7,
) -> Tensor:
    """The normalised softmax loss in multi-view form (MV-VSE section 3.3 allows any loss).

    For one view: -log of the positive's share in a softmax over the positive and all negatives of
    the batch, with cosines divided by a temperature. As this loss never reaches 0, the indicator
    of "upper" is whether the best view's softmax fails to rank the positive first (ties count
    against it): if it fails, the loss is that of every view's positive against the best views'
    negatives (rough), otherwise that of the best view's positive (max).

    "code" is the soft loss of the published code: the variants of `multi_view_triplet`'s "code",
    a margin of 0.2 on the negatives, times the temperature, the mean of both directions.

    Args:
        similarities: [B, B, K] float cosine, text i against view k of image j.
        different: [B, B] bool, False where text i and image j belong to one photo: no negatives.
        temperature: what the similarities are divided by.
        kind: "average", "max", "rough", "upper", "joint" or "code".
        weight: λ of "joint" and "code".

    Returns:
        scalar: mean over views and batch, sum of both directions ("code": see above).

    Raises:
        ValueError: for an unknown kind.
    """
    margin = _CODE_MARGIN if kind == "code" else 0.0

    def direction(similarities: Tensor, different: Tensor, kind: str) -> Tensor:
        diagonal = torch.eye(len(different), dtype=torch.bool, device=different.device)[:, :, None]

        def without_own(scores: Tensor) -> Tensor:
            return scores.masked_fill(~different[:, :, None], -torch.inf)

        def cost(positive: Tensor, negatives: Tensor) -> Tensor:
            logits = torch.where(diagonal, positive, without_own(negatives) + margin) / temperature
            return logits.logsumexp(dim=1) - _own(positive) / temperature

        def failed(best: Tensor) -> Tensor:
            return without_own(best).amax(dim=1) >= _own(best)

        return _by_view(similarities, kind, cost, failed).mean()

    total = _both_directions(direction, similarities, different, _parts(kind, weight))
    return total * temperature / 2 if kind == "code" else total


def _own(similarities: Tensor) -> Tensor:
    """Each anchor's similarity to its positive, per view: [B, B, K] -> [B, K]."""
    return similarities.diagonal().T


def _by_view(
    similarities: Tensor, kind: str, cost: _Cost, failed: Callable[[Tensor], Tensor]
) -> Tensor:
    """One variant of a loss: `cost` of some views' positives against some views' negatives."""
    best = similarities.amax(dim=2, keepdim=True)
    match kind:
        case "average":
            return cost(similarities, similarities)
        case "max":
            return cost(best, best)
        case "low":
            return cost(best, similarities)
    rough = cost(similarities, best)
    return rough if kind == "rough" else torch.where(failed(best), rough, cost(best, best))


def _parts(kind: str, weight: float) -> dict[str, float]:
    """The variants that a kind sums, each with its weight."""
    if kind not in get_args(MultiViewVariant):
        raise ValueError(f"kind is {kind!r}, not one of {', '.join(get_args(MultiViewVariant))}")
    if kind == "joint":
        return {"max": weight, "upper": 1 - weight}
    return {"rough": weight, "low": 1 - weight} if kind == "code" else {kind: 1.0}


def _both_directions(
    direction: Callable[[Tensor, Tensor, str], Tensor],
    similarities: Tensor,
    different: Tensor,
    parts: dict[str, float],
) -> Tensor:
    """Weighted sum of the variants over both directions, text to image and image to text."""
    directions = (similarities, different), (similarities.transpose(0, 1), different.T)
    losses = [
        share * direction(*pair, kind) for kind, share in parts.items() for pair in directions
    ]
    return torch.stack(losses).sum()
