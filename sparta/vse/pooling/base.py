"""Sets and sequences of different sizes in one padded tensor, and what pools them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from sparta.errors import InputError

# A method as its paper defines it, or as its authors' published code computes it.
PoolingVariant = Literal["paper", "code"]


def check_variant(pooling: str, variant: str) -> None:
    """Refuse a variant that does not exist.

    Raises:
        InputError: if `variant` is neither "paper" nor "code".
    """
    if variant not in get_args(PoolingVariant):
        raise InputError(f"pooling {pooling!r} has no variant {variant!r}: use 'paper' or 'code'")


class Pooling(nn.Module, ABC):
    """The n vectors of an image or a text → one vector of the same width.

    Whatever the padding holds, NaN and infinity included, it has no part in the result. The
    arithmetic is float32 under autocast too: softmaxes and sums over many elements lose too much
    in 16 bits.

    Args:
        dimension: d, the width of the vectors.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool B sets or sequences.

        Args:
            features: [B, n, d], of any floating type; the first `lengths` vectors are real.
            lengths: [B] int64, from 1 to n.

        Returns:
            [B, d] float32.
        """
        positions = torch.arange(features.shape[1], device=features.device)
        mask = (positions < lengths[:, None])[:, :, None]
        with torch.autocast(features.device.type, enabled=False):
            return self.pool(features.float().masked_fill(~mask, 0.0), mask)

    @abstractmethod
    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """Pool B sets or sequences whose padding is cleared.

        Args:
            features: [B, n, d] float32, zero where padded.
            mask: [B, n, 1] bool, True for real elements, which come first; at least one.

        Returns:
            [B, d] float32.
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
