"""Losses of dense models: the hinge loss over one view of an image or several, and ADOPT."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor

MultiViewVariant = Literal["average", "max", "rough", "upper", "joint", "code"]
AdoptVariant = Literal["paper", "code"]
_CODE_MARGIN = 0.2
_CODE_POWER = 1.25


# ---- one view or several: VSE++ and MV-VSE -------------------------------------------------------
#
# With one positive and one negative similarity per view, a loss for single embeddings has four
# variants: on either side it can use each view's similarity or the best view's (MV-VSE, 3.3):
#
#     average: each view's positive against that view's negatives (equation 8)
#     max:     the best view's positive against the best views' negatives (equation 9)
#     rough:   each view's positive against the best views' negatives (equation 13)
#     low:     the best view's positive against each view's negatives (published code only)
#
# "upper" (equations 10-12) is rough where even the best view violates the margin, and 0, as max is,
# elsewhere, so that max <= upper <= rough (equation 14). "joint" (equation 15, the paper's
# objective) is weight·max + (1 - weight)·upper. The published code trains another loss, "code":
# weight·rough + (1 - weight)·low. It has no indicator and no max, and its 0.7 weights the bound
# instead of max. Only "joint" behaves as the text of the paper describes: a view need not match a
# caption that another view already matches.


def triplet(
    similarities: Tensor,
    different: Tensor,
    margin: float = 0.2,
    kind: MultiViewVariant = "joint",
    weight: float = 0.7,
    hardest: bool = True,
) -> Tensor:
    """The hinge loss of VSE++ (GPO equation 1) over views: MV-VSE equations 8-15.

    Each positive pair should exceed its negatives by a margin. "max" is the plain loss of the best
    views. Two captions of one photo are never each other's negatives; published implementations
    exclude only the diagonal.

    Args:
        similarities: [B, B, K] float, text i against view k of image j; where i = j, a positive.
        different: [B, B] bool, False where text i and image j belong to one photo: no negatives.
        margin: α.
        kind: see above.
        weight: λ of "joint" and "code".
        hardest: only the hardest negative counts, as printed: of each view where the negatives
            are per view, of the best views otherwise. False sums over all negatives, as in the
            warm-up epoch; "upper" then has one indicator per negative, so that equation 14 holds.

    Returns:
        scalar: mean over views, sum over the batch and both directions ("code": a mean over both,
        as published). A text or image without negatives adds 0.
    """
    both = (similarities, different), (similarities.transpose(0, 1), different.T)
    losses = [
        share * _one_direction(*direction, margin, variant, hardest)
        for variant, share in _parts(kind, weight).items()
        for direction in both
    ]
    total = torch.stack(losses).sum()
    return total / (2 * len(different)) if kind == "code" else total


def _one_direction(
    similarities: Tensor, different: Tensor, margin: float, kind: str, hardest: bool
) -> Tensor:
    """One variant, with rows as anchors: the sum over the batch of the mean over views."""

    def violations(positives: Tensor, negatives: Tensor) -> Tensor:
        own = positives.diagonal().T[:, None]  # [B, 1, K]
        return (margin - own + negatives).relu().masked_fill(~different[:, :, None], 0.0)

    best = similarities.amax(dim=2, keepdim=True)
    match kind:
        case "average":
            costs = violations(similarities, similarities)
        case "max":
            costs = violations(best, best)
        case "low":
            costs = violations(best, similarities)
        case "rough":
            costs = violations(similarities, best)
        case _:
            costs = violations(similarities, best) * (violations(best, best) > 0)
    return (costs.amax(dim=1) if hardest else costs.sum(dim=1)).mean(dim=1).sum()


def _parts(kind: str, weight: float) -> dict[str, float]:
    """The variants that a kind sums, each with its weight."""
    if kind == "joint":
        return {"max": weight, "upper": 1 - weight}
    return {"rough": weight, "low": 1 - weight} if kind == "code" else {kind: 1.0}


# ---- ADOPT: VSE+2AD ------------------------------------------------------------------------------
#
# The number of negatives K should shrink from the whole batch to a handful as the model improves
# (section 3.3; the appendix shows 4-5 after five epochs). Only the published code does that: its
# uniformity is close to 1 from the start, so that a growing alignment soon makes the angle larger
# than a right angle, where K is 1. The printed uniformity is close to 0 for any useful model, and
# equation 6 reaches K = 1 only if all embeddings coincide. With 128 pairs and negatives at a
# similarity of 0.05, an alignment of 0, 0.3, 0.5, 0.8 gives K = 127, 123, 116, 99 as printed and
# 76, 32, 1, 1 as coded.


class AdoptLoss(NamedTuple):
    """The loss, K, and the two quantities that determine K."""

    loss: Tensor  # scalar float, with gradient
    alignment: Tensor  # scalar float, γ_align, no gradient
    uniformity: Tensor  # scalar float, γ_uniform as the variant defines it, no gradient
    # Scalar int64, K, the same for both directions. A text or image with fewer negatives uses all
    # it has.
    negatives: Tensor


def adopt(
    similarities: Tensor,
    different: Tensor,
    temperature: float = 0.05,
    variant: AdoptVariant = "paper",
) -> AdoptLoss:
    """VSE+2AD section 3.3: InfoNCE against the K hardest negatives, K by equation 6.

    "paper" follows the printed equations: log-mean-exp uniformity, an angle of
    (γ_align + γ_uniform)·π/4, the negatives alone in the denominator, the sum of both directions.
    "code" follows the published code: an angle of (γ_align + γ_uniform)^1.25, a margin of 0.2 on
    the negatives, the positive in the denominator, the mean of both directions. (The code computes
    K once per direction, from values that are equal for both.)

    In both variants negatives belong to other photos. The published code sorts with a similarity
    of 0 in place of the positive and does not compare photos: there another caption of the same
    photo counts as a negative, and so does the positive if most similarities are below 0.

    Args:
        similarities: [B, B] float cosine, text i against image j; the diagonal holds the positives.
        different: [B, B] bool, False where text i and image j belong to one photo.
        temperature: τ.
        variant: "paper" or "code".

    Returns:
        The loss, averaged over the batch (a text or image without negatives adds 0), and K, which
        stays on the device.
    """
    coded = variant == "code"
    with torch.no_grad():
        alignment = similarities.diagonal().mean()
        uniformity = _coded_uniformity(similarities) if coded else similarities.exp().mean().log()
        negatives = _how_many(alignment + uniformity, len(similarities), coded)
    directions = (similarities, different), (similarities.T, different.T)
    texts, images = (_info_nce(*each, negatives, temperature, coded) for each in directions)
    loss = (texts + images) / 2 if coded else texts + images
    return AdoptLoss(loss, alignment, uniformity, negatives)


def _coded_uniformity(similarities: Tensor) -> Tensor:
    """Mean exp(-similarity) over all pairs, with the similarity of positives set to 0."""
    return (-similarities).fill_diagonal_(0.0).exp().mean()


def _how_many(maturity: Tensor, size: int, coded: bool) -> Tensor:
    """K by equation 6, or by the published code, from γ_align + γ_uniform."""
    # A negative number has no 1.25th power; 0 gives the largest K.
    angle = maturity.clamp(min=0) ** _CODE_POWER if coded else maturity * (math.pi / 4)
    wanted = (size * angle.cos()).floor() + (1 if coded else 0)
    # The upper bound first: a batch of one pair has K = 1 and no negatives.
    return wanted.clamp(max=size - 1).clamp(min=1).long()


def _info_nce(
    similarities: Tensor, different: Tensor, negatives: Tensor, temperature: float, coded: bool
) -> Tensor:
    """Mean over anchors (rows) of log Σ exp(K hardest negatives / τ) - positive / τ."""
    positive = similarities.diagonal()[:, None]
    hardest = similarities.masked_fill(~different, -torch.inf).sort(dim=1, descending=True).values
    unused = torch.arange(len(similarities), device=similarities.device) >= negatives
    below = hardest.masked_fill(unused, -torch.inf)
    if coded:
        below = torch.cat([positive, below + _CODE_MARGIN], dim=1)
        return ((below / temperature).logsumexp(dim=1) - positive[:, 0] / temperature).mean()
    alone = ~different.any(dim=1, keepdim=True)
    # The log of an empty sum has no finite gradient: fill such rows first, then set them to 0.
    log_sum = (below / temperature).masked_fill(alone, 0.0).logsumexp(dim=1, keepdim=True)
    return (log_sum - positive / temperature).masked_fill(alone, 0.0).mean()
