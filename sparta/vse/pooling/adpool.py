"""ADPOOL, the adaptive pooling of VSE+2AD (arXiv 2210.02206), equations 3 to 5."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

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
    result depends on how far a batch was padded, unless `padded_to` fixes that.

    Args:
        dimension: d, the width of the vectors.
        variant: "paper" is equation 3: one weight per position and padding without a part in it.
        token_weight: ω_1 of equation 5 as a fixed number from 0 to 1 (table C-2), None to learn
            the balance. 1 leaves the token level alone, 0 the embedding level (table 3).
        padded_to: with "code", the number of positions a set is treated as padded to, whatever its
            batch; longer sets as not padded. None for the batch's padding.

    Raises:
        InputError: if the variant is unknown, the weight is not between 0 and 1, or `padded_to` is
            less than 1 or given with "paper".
    """

    def __init__(
        self,
        dimension: int,
        variant: PoolingVariant = "paper",
        token_weight: float | None = None,
        padded_to: int | None = None,
    ) -> None:
        super().__init__(dimension)
        check_variant("adpool", variant)
        if token_weight is not None and not 0 <= token_weight <= 1:
            raise InputError(
                f"pooling 'adpool': token_weight must be from 0 to 1, not {token_weight}"
            )
        if padded_to is not None and (variant == "paper" or padded_to < 1):
            raise InputError(
                f"pooling 'adpool': padded_to is {padded_to}; it must be at least 1, and is for "
                "variant 'code' alone"
            )
        self.token_weight = token_weight
        self.padded_to = padded_to
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

    @property
    def follows_batch(self) -> bool:
        """Whether the result depends on how far the batch was padded."""
        return self.as_code and self.padded_to is None and self.token_weight != 0

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
        if not self.as_code:
            return weighted_sum(masked_softmax(self.linear(ranked), mask), ranked)
        if self.padded_to is not None:
            missing = max(0, self.padded_to - ranked.shape[1])
            ranked = functional.pad(ranked, (0, 0, 0, missing))
        logits = self.linear(ranked).relu()
        return weighted_sum(masked_softmax(logits, self._places(ranked, mask)), ranked)

    def _places(self, ranked: Tensor, mask: Tensor) -> Tensor:
        """The positions, padding included, that share the published code's softmax: [B, n, 1]."""
        size = ranked.shape[1]
        least = size if self.padded_to is None else self.padded_to
        counts = mask.sum(dim=1).clamp(min=least)
        return (torch.arange(size, device=ranked.device) < counts)[:, :, None]

    def _balance(self, both: Tensor) -> Tensor:
        """Equation 5's ω of the token-level and the embedding-level vectors: [B or 1, 2, 1]."""
        if self.token_weight is None:
            return self.balance(both).softmax(dim=1)
        return both.new_tensor([self.token_weight, 1 - self.token_weight])[None, :, None]
