"""Every pooling under its name, and aggregators that let the elements see each other first.

The papers (GPO's table 1, ADPOOL's table 4) give citations and parameter counts of the aggregators
only; each is a design that fits both at d = 1024.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence

from sparta.errors import InputError
from sparta.vse.gpo import GPO, ADPool
from sparta.vse.pooling import (
    LIP,
    AdaPool,
    FirstPooling,
    FSPool,
    GeM,
    KMaxPooling,
    LastPooling,
    MaxPooling,
    MeanPooling,
    Pooling,
    SoftPooling,
    masked_mean,
)


class SelfAttention(Pooling):
    """Mean of the elements, to each of which is added what it attends to in all of them.

    Multi-head attention with query, key and value maps and no output map: 3.1 million parameters,
    where table 1 reports 3.2.

    Args:
        heads: attention heads, a divisor of d.

    Raises:
        InputError: if the heads do not divide the width.
    """

    def __init__(self, dimension: int, heads: int = 8) -> None:
        super().__init__(dimension)
        if heads < 1 or dimension % heads:
            raise InputError(
                f"pooling 'self-attention': {heads} heads do not divide a width of {dimension}"
            )
        self.heads = heads
        self.projection = nn.Linear(dimension, 3 * dimension)

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        split = self.projection(features).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each [B, heads, n, d / heads]
        attended = scaled_dot_product_attention(
            query, key, value, attn_mask=mask.transpose(1, 2)[:, None]
        )
        return masked_mean(features + attended.transpose(1, 2).flatten(2), mask)


class Seq2Seq(Pooling):
    """Last state of a GRU over the elements in order: one layer, one direction, 6.3 million."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.gru = nn.GRU(dimension, dimension, batch_first=True)

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return last_state(self.gru, features, mask)


class GCN(Pooling):
    """Mean after one residual graph convolution of VSRN: 4.2 million parameters."""

    LAYERS = 1

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.layers = nn.ModuleList(GraphConvolution(dimension) for _ in range(self.LAYERS))

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return masked_mean(self.reason(features, mask), mask)

    def reason(self, features: Tensor, mask: Tensor) -> Tensor:
        """All graph convolutions: [B, n, d] → [B, n, d]."""
        for layer in self.layers:
            features = layer(features, mask)
        return features


class GCNSeq2Seq(GCN):
    """VSRN's aggregator (arXiv 1909.02701), 23.1 million parameters.

    Four graph convolutions, then the last state of a GRU over the elements in order.
    """

    LAYERS = 4

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.gru = nn.GRU(dimension, dimension, batch_first=True)

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        return last_state(self.gru, self.reason(features, mask), mask)


class GraphConvolution(nn.Module):
    """One reasoning layer of VSRN: x + BatchNorm(W (R / n) G x) with affinity R = θ(x) φ(x)ᵀ.

    The affinity is divided by the number of elements, as VSRN's code normalises it. The batch
    norm sees real elements only and starts at zero, so that the layer starts as the identity.
    """

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.theta = nn.Linear(dimension, dimension)
        self.phi = nn.Linear(dimension, dimension)
        self.message = nn.Linear(dimension, dimension)
        self.update = nn.Linear(dimension, dimension)
        self.norm = nn.BatchNorm1d(dimension)
        nn.init.zeros_(self.norm.weight)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """[B, n, d] and mask [B, n, 1] → [B, n, d]; the values at padding are meaningless."""
        affinity = self.theta(features) @ self.phi(features).transpose(1, 2)
        messages = self.message(features).masked_fill(~mask, 0.0)
        count = mask.sum(dim=1, keepdim=True)
        updated = self.update(affinity @ messages / count)
        change = self.norm(updated[mask[:, :, 0]])
        return features + torch.zeros_like(features).masked_scatter(mask, change)


def last_state(gru: nn.GRU, features: Tensor, mask: Tensor) -> Tensor:
    """The state after the last real element: [B, n, d] and mask [B, n, 1] → [B, d]."""
    packed = pack_padded_sequence(
        features, mask.sum(dim=(1, 2)).cpu(), batch_first=True, enforce_sorted=False
    )
    _, state = gru(packed)
    return state[0]


POOLINGS: dict[str, type[Pooling]] = {
    "mean": MeanPooling,
    "max": MaxPooling,
    "k-max": KMaxPooling,
    "gpo": GPO,
    "adpool": ADPool,
    "gem": GeM,
    "fspool": FSPool,
    "cls": FirstPooling,
    "last": LastPooling,
    "softpool": SoftPooling,
    "adapool": AdaPool,
    "lip": LIP,
    "self-attention": SelfAttention,
    "seq2seq": Seq2Seq,
    "gcn": GCN,
    "gcn-seq2seq": GCNSeq2Seq,
}


def make_pooling(name: str, dimension: int, **options: Any) -> Pooling:
    """Make a pooling by name.

    Args:
        name: a key of `POOLINGS`.
        dimension: d, the width of the vectors to pool.
        **options: the pooling's own, such as `k` of "k-max".

    Raises:
        InputError: if there is no such pooling, it has no such option, or a value is refused; the
            message lists what there is.
    """
    if name not in POOLINGS:
        raise InputError(f"there is no pooling {name!r}; there are: {', '.join(POOLINGS)}")
    known = [option for option in signature(POOLINGS[name]).parameters if option != "dimension"]
    for option in options:
        if option not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise InputError(f"pooling {name!r} has no option {option!r}; {has}")
    return POOLINGS[name](dimension, **options)
