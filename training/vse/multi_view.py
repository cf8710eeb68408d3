"""Losses for several embeddings per image (MV-VSE section 3.3).

With one positive and one negative similarity per view, a loss for single embeddings has four
readings, by whether either side is each view's own or the best view's:

    average: each view's positive against its own negatives (equation 8)
    max:     the best view's positive against the best views' negatives (equation 9)
    rough:   each view's positive against the best views' negatives (equation 13)
    low:     the best view's positive against each view's negatives (published code only)

`upper` (equations 10-12) is rough where even the best view fails and max elsewhere, so that
max <= upper <= rough (equation 14) for any loss that falls as the positive rises; for the triplet
loss, max is 0 there. With one view all of them are the plain loss.
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
    code trains another loss, kind "code": weight·rough + (1 - weight)·low. There is no indicator
    in it and no max, and its 0.7 weighs the bound, not max; it is "joint" that behaves as the text
    describes, where a view may stay away from a caption that another view already finds.

    Args:
        similarities: [B, B, K] float, text i against view k of image j; where i = j, a positive.
        different: [B, B] bool, False where text i and image j belong to one photo: no negatives.
        margin: α.
        kind: "average", "max", "rough", "upper", "joint" or "code".
        weight: λ of "joint" and "code".
        hardest: the hardest negatives, as printed: each view's own where the negatives are each
            view's, the best views' otherwise. False sums over all negatives, "upper" with one
            indicator per negative, which keeps equation 14: so every kind can have the warm-up
            epoch that the plain triplet loss has.

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

    total = _both_ways(direction, similarities, different, _parts(kind, weight))
    return total / (2 * len(different)) if kind == "code" else total


def multi_view_softmax(
    similarities: Tensor,
    different: Tensor,
    temperature: float = 0.05,
    kind: MultiViewVariant = "joint",
    weight: float = 0.7,
) -> Tensor:
    """The normalised softmax loss, made multi-view as MV-VSE says other losses can be.

    For one view: -log of the positive's share in a softmax over the positive and all negatives of
    the batch, cosines divided by a temperature. That loss never reaches 0, so the indicator of
    "upper" asks instead whether the best view's softmax picks the positive (ties count against
    it): if not, every view's positive is pulled up against the best views' negatives (rough); if
    so, only the best view's is (max), and the other views may stay away.

    "code" is the published code's soft loss: its readings as in `multi_view_triplet`, a margin of
    0.2 on the negatives, times the temperature, a mean of both directions.

    Args:
        similarities: [B, B, K] float cosine, text i against view k of image j.
        different: [B, B] bool, False where text i and image j belong to one photo: no negatives.
        temperature: what the similarities are divided by.
        kind: "average", "max", "rough", "upper", "joint" or "code".
        weight: λ of "joint" and "code".

    Returns:
        scalar: mean over views and batch, sum of both directions ("code": as said above).

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

    total = _both_ways(direction, similarities, different, _parts(kind, weight))
    return total * temperature / 2 if kind == "code" else total


def _own(similarities: Tensor) -> Tensor:
    """Each anchor's similarity to its positive, per view: [B, B, K] -> [B, K]."""
    return similarities.diagonal().T


def _by_view(
    similarities: Tensor, kind: str, cost: _Cost, failed: Callable[[Tensor], Tensor]
) -> Tensor:
    """One reading of a loss: `cost` of some views' positives against some views' negatives."""
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
    """The readings a kind adds up, each with its weight."""
    if kind not in get_args(MultiViewVariant):
        raise ValueError(f"kind is {kind!r}, not one of {', '.join(get_args(MultiViewVariant))}")
    if kind == "joint":
        return {"max": weight, "upper": 1 - weight}
    return {"rough": weight, "low": 1 - weight} if kind == "code" else {kind: 1.0}


def _both_ways(
    direction: Callable[[Tensor, Tensor, str], Tensor],
    similarities: Tensor,
    different: Tensor,
    parts: dict[str, float],
) -> Tensor:
    """Weighted sum over the readings, of texts against images and images against texts."""
    ways = (similarities, different), (similarities.transpose(0, 1), different.T)
    losses = [share * direction(*way, kind) for kind, share in parts.items() for way in ways]
    return torch.stack(losses).sum()
