"""Poolings that learn nothing."""

from __future__ import annotations

from torch import Tensor

from sparta.errors import InputError
from sparta.vse.pooling.base import Pooling, masked_mean, masked_softmax, weighted_sum


class MeanPooling(Pooling):
    """Mean of each dimension (AvgPool, GPO section 3.2): what VSE++ uses."""

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        return masked_mean(features, mask)


class MaxPooling(Pooling):
    """Maximum of each dimension (MaxPool, GPO section 3.2)."""

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        return features.masked_fill(~mask, float("-inf")).amax(dim=1)


class KMaxPooling(Pooling):
    """Mean of the k largest values of each dimension (K-MaxPool, GPO section 3.2).

    Args:
        dimension: d, the width of the vectors.
        k: how many; a smaller set is averaged whole.

    Raises:
        InputError: if k is not positive.
    """

    def __init__(self, dimension: int, k: int = 5) -> None:
        super().__init__(dimension)
        if k < 1:
            raise InputError(f"pooling 'k-max' averages k values: k must be 1 or more, not {k}")
        self.k = k

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        k = min(self.k, features.shape[1])
        largest = features.masked_fill(~mask, float("-inf")).topk(k, dim=1).values
        return masked_mean(largest, mask[:, :k])


class FirstPooling(Pooling):
    """The first element: BERT's [CLS]; for a BiGRU the first token (GPO section 5.2)."""

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        return features[:, 0]


class LastPooling(Pooling):
    """The last element: all that MV-VSE's published code keeps of a GRU that reads forwards."""

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        last = mask.sum(dim=1, keepdim=True) - 1
        return features.gather(1, last.expand(-1, 1, features.shape[2]))[:, 0]


class SoftPooling(Pooling):
    """Each dimension weighted by the softmax of its own values, Σ x e^x / Σ e^x.

    SoftPool (Stergiou et al., arXiv 2101.00440) over a whole set; the embedding-level pooling of
    ADPOOL (equation 4) is the same.
    """

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        return soft_pool(features, mask)


def soft_pool(features: Tensor, mask: Tensor) -> Tensor:
    """Σ x e^x / Σ e^x over the real elements: [B, n, d] and mask [B, n, 1] → [B, d]."""
    return weighted_sum(masked_softmax(features, mask), features)
