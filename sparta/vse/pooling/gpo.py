"""GPO, the generalised pooling operator of VSE∞ (arXiv 2011.04305), equations 3 to 5."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from sparta.errors import InputError
from sparta.vse.pooling.base import (
    Pooling,
    PoolingVariant,
    check_variant,
    masked_softmax,
    sort_descending,
    weighted_sum,
)

# Width of the position encodings and of the GRU's states (section 5.1).
WIDTH = 32


def encode_positions(first: int, count: int) -> Tensor:
    """Equation 4: sines in the even columns, cosines in the odd ones.

    Args:
        first: the number of the first position.
        count: how many positions.

    Returns:
        [count, 32] float32.
    """
    frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(first, first + count)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class GPO(Pooling):
    """Weighted sum of each dimension's sorted values; the k-th largest weighs θ_k = g(k, n).

    The weights come from the positions alone: a small bidirectional GRU reads the encodings of
    1 … n, its directions are averaged, a linear layer gives a scalar per position (the paper has
    "MLP"; the published code has this one layer) and a softmax makes the weights sum to one.

    They depend on n alone, so one sequence is run per distinct length of a batch. In eval mode
    without gradients they are kept per length, until training starts, weights are loaded or the
    module moves.

    It has 12,704 parameters whatever the dimension: 0.03 million for the two of a model, where
    section 5.1 reports 0.1 million in total.

    Args:
        dimension: d, the width of the vectors.
        temperature: divides the scalars before the softmax. The paper has none; its code has 0.1.
        variant: "paper" counts positions from 1 (equation 3), "code" from 0, as the published
            weights need.

    Raises:
        InputError: if the temperature is not positive or the variant is unknown.
    """

    def __init__(
        self, dimension: int, temperature: float = 0.1, variant: PoolingVariant = "paper"
    ) -> None:
        super().__init__(dimension)
        if temperature <= 0:
            raise InputError(f"pooling 'gpo': temperature must be positive, not {temperature}")
        check_variant("gpo", variant)
        self.temperature = temperature
        self.first_position = 1 if variant == "paper" else 0
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(WIDTH, 1, bias=False)
        self._kept: dict[int, Tensor] = {}
        self.register_load_state_dict_post_hook(GPO._forget)

    def pool(self, features: Tensor, mask: Tensor) -> Tensor:
        """See `Pooling.pool`."""
        lengths, rows = mask.sum(dim=(1, 2)).unique(return_inverse=True)
        weights = self._weights(lengths.tolist())[rows, :, None]
        longest = weights.shape[1]
        return weighted_sum(weights, sort_descending(features[:, :longest], mask[:, :longest]))

    @torch.no_grad()
    def coefficients(self, length: int) -> Tensor:
        """θ_1 … θ_n for sets of one size, largest value first, for a figure: [length] float32."""
        return self._generate([length])[0]

    def _weights(self, lengths: list[int]) -> Tensor:
        """Weights for U lengths, [U, longest], zero after each length; cached in evaluation."""
        if self.training or torch.is_grad_enabled():
            self._forget()
            return self._generate(lengths)
        missing = [length for length in lengths if length not in self._kept]
        if missing:
            rows = self._generate(missing)
            self._kept |= {length: row[:length] for length, row in zip(missing, rows, strict=True)}
        return pad_sequence([self._kept[length] for length in lengths], batch_first=True)

    def _generate(self, lengths: list[int]) -> Tensor:
        """Equations 3 to 5 for U lengths: [U, longest] float32, zero after each length."""
        device = self.linear.weight.device
        sizes = torch.tensor(lengths)
        encoded = encode_positions(self.first_position, max(lengths)).to(device)
        packed = pack_padded_sequence(
            encoded.expand(len(lengths), -1, -1), sizes, batch_first=True, enforce_sorted=False
        )
        hidden, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True)
        logits = self.linear(hidden.unflatten(-1, (2, WIDTH)).mean(dim=-2)) / self.temperature
        mask = torch.arange(max(lengths)) < sizes[:, None]
        return masked_softmax(logits, mask[:, :, None].to(device))[:, :, 0]

    # ---- when cached weights are out of date ---------------------------------------------------

    def _forget(self, *_: Any) -> None:
        self._kept.clear()

    def train(self, mode: bool = True) -> Self:
        """As in torch; training invalidates the cached weights."""
        if mode:
            self._forget()
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> Self:
        self._forget()  # another device or type
        return super()._apply(*args, **kwargs)
