"""Poolings with parameters of their own, to compare GPO and ADPOOL with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparta.vse.pooling.base import (
    Pooling,
    masked_mean,
    masked_softmax,
    sort_descending,
    weighted_sum,
)
from sparta.vse.pooling.fixed import soft_pool


class GeM(Pooling):
    """Generalised mean, (mean of x^p)^(1/p) with one trainable p (arXiv 1711.02512).

    Computed through logarithms, so that no power overflows and no gradient explodes. Values below
    1e-6 count as 1e-6. p starts at 3 and is learned as its logarithm, which keeps it positive;
    p = 1 is the mean, a large p the maximum.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.log_p = nn.Parameter(torch.tensor(3.0).log())

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        p = self.log_p.exp()
        logs = (p * features.clamp(min=1e-6).log()).masked_fill(~mask, float("-inf"))
        return ((logs.logsumexp(dim=1) - mask.sum(dim=1).log()) / p).exp()


class FSPool(Pooling):
    """Sorted values times learned weights that are a function of the relative rank.

    Each dimension has its own piecewise linear function over ranks from 0 (largest) to 1, given
    at 21 points and interpolated for any n (arXiv 1906.02795). The weights need not sum to one.
    """

    PIECES = 20

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.weight = nn.Parameter(torch.randn(self.PIECES + 1, dimension))

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        ranks = torch.arange(features.shape[1], device=features.device)
        relative = ranks / (mask.sum(dim=1) - 1).clamp(min=1)
        place = self.PIECES * relative.clamp(max=1)  # [B, n]
        left = place.long().clamp(max=self.PIECES - 1)
        between = (place - left)[:, :, None]
        weights = torch.lerp(self.weight[left], self.weight[left + 1], between)
        return weighted_sum(weights, sort_descending(features, mask))


class AdaPool(Pooling):
    """A learned mix of two poolings: close to the mean, and close to the maximum.

    Exponential adaptive pooling (arXiv 2111.00772) over a whole set: β times the values weighted
    by the softmax of their Dice-Sørensen coefficient with the mean, 2xm / (x² + m²), plus 1 − β
    times SoftPool. Both weigh each dimension by itself, as the authors' code does. β is one
    number, the sigmoid of a parameter, and starts at a half.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.beta = nn.Parameter(torch.zeros(()))

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        mean = masked_mean(features, mask)[:, None]
        dice = 2 * features * mean / (features.square() + mean.square()).clamp(min=1e-12)
        near_mean = weighted_sum(masked_softmax(dice, mask), features)
        return torch.lerp(soft_pool(features, mask), near_mean, self.beta.sigmoid())


class LIP(Pooling):
    """Local importance pooling: the softmax of learned logits weighs the values.

    The logits (arXiv 1908.04156) come from the elements by a linear map, per dimension; they are
    normalised over the set, scaled and shifted, and kept between 0 and 12 by a sigmoid. The map
    starts at zero, which is mean pooling.
    """

    LARGEST_LOGIT = 12.0

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.linear = nn.Linear(dimension, dimension, bias=False)
        nn.init.zeros_(self.linear.weight)
        self.scale = nn.Parameter(torch.ones(dimension))
        self.shift = nn.Parameter(torch.zeros(dimension))

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        mapped = self.linear(features)
        centred = mapped - masked_mean(mapped, mask)[:, None]
        variance = masked_mean(centred.square(), mask)[:, None]
        normalised = centred * (variance + 1e-5).rsqrt()
        logits = self.LARGEST_LOGIT * (normalised * self.scale + self.shift).sigmoid()
        return weighted_sum(masked_softmax(logits, mask), features)
