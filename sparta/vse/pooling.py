"""Sets and sequences of different sizes in one padded tensor, and the simpler poolings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.vse.batch import real_rows

# A method as its paper defines it, or as its authors' published code computes it.
PoolingVariant = Literal["paper", "code"]


class Pooling(nn.Module, ABC):
    """The n vectors of an image or a text → one vector of the same width d.

    Whatever the padding holds, NaN and infinity included, it has no part in the result. The
    arithmetic is float32 under autocast too: softmaxes and sums over many elements lose too much
    in 16 bits.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool B sets or sequences [B, n, d] of any floating type: [B, d] float32.

        The first `lengths` [B] int64 vectors of each are real, from 1 to n.
        """
        mask = real_rows(lengths, features.shape[1])[:, :, None]
        with torch.autocast(features.device.type, enabled=False):
            return self._pool(features.float().masked_fill(~mask, 0.0), mask)

    @abstractmethod
    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """[B, d] float32 of features [B, n, d] float32, zero where padded, and mask [B, n, 1] bool.

        True marks real elements, at least one, which come first.
        """


def masked_mean(features: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real elements: [B, n, d] and mask [B, n, 1] → [B, d]."""
    return features.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1)


def masked_softmax(logits: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the elements, zero where padded: [B, n, d or 1] and mask [B, n, 1]."""
    return logits.masked_fill(~mask, float("-inf")).softmax(dim=1)


def weighted_sum(weights: Tensor, features: Tensor) -> Tensor:
    """Weights [B, n, d or 1] times features [B, n, d], summed over the elements: [B, d]."""
    return (weights * features).sum(dim=1)


def sort_descending(features: Tensor, mask: Tensor) -> Tensor:
    """Sort every dimension by itself, largest first: [B, n, d], zero where padded."""
    # Contiguous in memory, a sort takes half the time.
    by_dimension = features.masked_fill(~mask, float("-inf")).transpose(1, 2).contiguous()
    ranked = by_dimension.sort(dim=-1, descending=True).values.transpose(1, 2)
    return ranked.masked_fill(~mask, 0.0)


# ---- poolings that learn nothing -----------------------------------------------------------------


class MeanPooling(Pooling):
    """Mean of each dimension (AvgPool, GPO section 3.2): what VSE++ uses."""

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return masked_mean(features, mask)


class MaxPooling(Pooling):
    """Maximum of each dimension (MaxPool, GPO section 3.2)."""

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return features.masked_fill(~mask, float("-inf")).amax(dim=1)


class KMaxPooling(Pooling):
    """Mean of the k largest values of each dimension (K-MaxPool, GPO section 3.2).

    A smaller set is averaged whole.
    """

    def __init__(self, dimension: int, k: int = 5) -> None:
        super().__init__(dimension)
        if k < 1:
            raise InputError(f"pooling 'k-max' averages k values: k must be 1 or more, not {k}")
        self.k = k

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        k = min(self.k, features.shape[1])
        largest = features.masked_fill(~mask, float("-inf")).topk(k, dim=1).values
        return masked_mean(largest, mask[:, :k])


class FirstPooling(Pooling):
    """The first element: BERT's [CLS]; for a BiGRU the first token (GPO section 5.2)."""

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return features[:, 0]


class LastPooling(Pooling):
    """The last element: all that MV-VSE's published code keeps of a GRU that reads forwards."""

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        last = mask.sum(dim=1, keepdim=True) - 1
        return features.gather(1, last.expand(-1, 1, features.shape[2]))[:, 0]


class SoftPooling(Pooling):
    """Each dimension weighted by the softmax of its own values, Σ x e^x / Σ e^x.

    SoftPool (Stergiou et al., arXiv 2101.00440) over a whole set; the embedding-level pooling of
    ADPOOL (equation 4) is the same.
    """

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return soft_pool(features, mask)


def soft_pool(features: Tensor, mask: Tensor) -> Tensor:
    """Σ x e^x / Σ e^x over the real elements: [B, n, d] and mask [B, n, 1] → [B, d]."""
    return weighted_sum(masked_softmax(features, mask), features)


# ---- poolings with parameters of their own, to compare GPO and ADPOOL with -----------------------


class GeM(Pooling):
    """Generalised mean, (mean of x^p)^(1/p) with one trainable p (arXiv 1711.02512).

    Computed through logarithms, so that no power overflows and no gradient explodes. Values below
    1e-6 count as 1e-6. p starts at 3 and is learned as its logarithm, which keeps it positive;
    p = 1 is the mean, a large p the maximum.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.log_p = nn.Parameter(torch.tensor(3.0).log())

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
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

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
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

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
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

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        mapped = self.linear(features)
        centred = mapped - masked_mean(mapped, mask)[:, None]
        variance = masked_mean(centred.square(), mask)[:, None]
        normalised = centred * (variance + 1e-5).rsqrt()
        logits = self.LARGEST_LOGIT * (normalised * self.scale + self.shift).sigmoid()
        return weighted_sum(masked_softmax(logits, mask), features)
