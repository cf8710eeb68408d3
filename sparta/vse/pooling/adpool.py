"""ADPOOL, the adaptive pooling of VSE+2AD (arXiv 2210.02206), equations 3 to 5."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.vse.pooling.base import (
    Pooling,
    PoolingVariant,
    check_variant,
    masked_softmax,
    sort_descending,
    weighted_sum,
)
from sparta.vse.pooling.fixed import soft_pool


class ADPool(Pooling):
    """A token-level and an embedding-level pooled vector, and the balance between them.

    The variant "code" differs in the token level: its weights are per position and per dimension,
    a ReLU precedes the softmax, and padded positions take their share of it, so that the
    result depends on how far a batch was padded.

    Args:
        dimension: d, the width of the vectors.
        variant: "paper" is equation 3: one weight per position and padding without a part in it.
        token_weight: ω_1 of equation 5 as a fixed number from 0 to 1 (table C-2), None to learn
            the balance. 1 leaves the token level alone, 0 the embedding level (table 3).

    Raises:
        InputError: if the variant is unknown or the weight is not between 0 and 1.
    """

    def __init__(
        self, dimension: int, variant: PoolingVariant = "paper", token_weight: float | None = None
    ) -> None:
        super().__init__(dimension)
        check_variant("adpool", variant)
        if token_weight is not None and not 0 <= token_weight <= 1:
            raise InputError(
                f"pooling 'adpool': token_weight must be from 0 to 1, not {token_weight}"
            )
        self.token_weight = token_weight
        self.as_code = variant == "code"
        # Only what takes part has parameters. Biases that a softmax cancels are there for the
        # published code's weights alone.
        if token_weight != 0:
            width = dimension if self.as_code else 1
            self.linear = nn.Linear(dimension, width, bias=self.as_code)
            nn.init.xavier_uniform_(self.linear.weight)
            if self.as_code:
                nn.init.zeros_(self.linear.bias)
        if token_weight is None:
            self.balance = nn.Linear(dimension, 1, bias=self.as_code)

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        if self.token_weight == 0:
            return soft_pool(features, mask)
        tokens = self._pool_tokens(features, mask)
        if self.token_weight == 1:
            return tokens
        both = torch.stack([tokens, soft_pool(features, mask)], dim=1)
        return weighted_sum(self._balance(both), both)

    def _pool_tokens(self, features: Tensor, mask: Tensor) -> Tensor:
        """Equation 3: [B, d]."""
        ranked = sort_descending(features, mask)
        logits = self.linear(ranked)
        if self.as_code:
            return weighted_sum(logits.relu().softmax(dim=1), ranked)
        return weighted_sum(masked_softmax(logits, mask), ranked)

    def _balance(self, both: Tensor) -> Tensor:
        """Equation 5's ω of the token-level and the embedding-level vectors: [B or 1, 2, 1]."""
        if self.token_weight is None:
            return self.balance(both).softmax(dim=1)
        return both.new_tensor([self.token_weight, 1 - self.token_weight])[None, :, None]
