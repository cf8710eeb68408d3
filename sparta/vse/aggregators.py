"""GPO of VSE∞ (arXiv 2011.04305) and ADPOOL of VSE+2AD (2210.02206), each equations 3 to 5.

Behind them, aggregators that let the elements see each other first. The papers (GPO's table 1,
ADPOOL's table 4) give citations and parameter counts of these only; each is a design that fits
both at d = 1024.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Self, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from sparta.errors import InputError
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
    PoolingVariant,
    SoftPooling,
    masked_mean,
    masked_softmax,
    soft_pool,
    sort_descending,
    weighted_sum,
)

# Width of the position encodings and of the GRU's states (section 5.1).
WIDTH = 32


def encode_positions(first: int, count: int) -> Tensor:
    """Equation 4: sines in the even columns, cosines in the odd ones, [count, 32] float32."""
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
        temperature: divides the scalars before the softmax. The paper has none; its code has 0.1.
        variant: "paper" counts positions from 1 (equation 3), "code" from 0, as the published
            weights need.
    """

    def __init__(
        self, dimension: int, temperature: float = 0.1, variant: PoolingVariant = "paper"
    ) -> None:
        super().__init__(dimension)
        if temperature <= 0:
            raise InputError(f"pooling 'gpo': temperature must be positive, not {temperature}")
        self.temperature = temperature
        self.first_position = 1 if variant == "paper" else 0
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.linear = nn.Linear(WIDTH, 1, bias=False)
        self._kept: dict[int, Tensor] = {}
        self.register_load_state_dict_post_hook(GPO._forget)

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
        lengths, rows = mask.sum(dim=(1, 2)).unique(return_inverse=True)
        weights = self._weights(lengths.tolist())[rows, :, None]
        longest = weights.shape[1]
        return weighted_sum(weights, sort_descending(features[:, :longest], mask[:, :longest]))

    def pool_whole(self, features: Tensor) -> Tensor:
        """Pool sets of one size [B, n, d] to [B, d] by operations that can be traced for any n."""
        positions = encode_positions(self.first_position, features.shape[1])
        hidden = self.gru(positions[None])[0].unflatten(-1, (2, WIDTH)).mean(dim=-2)
        weights = (self.linear(hidden) / self.temperature).softmax(dim=1)
        return weighted_sum(weights, features.float().sort(dim=1, descending=True).values)

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


class ADPool(Pooling):
    """A token-level and an embedding-level pooled vector, and the balance between them.

    The variant "code" differs in the token level: its weights are per position and per dimension,
    a ReLU precedes the softmax, and padded positions take their share of it, so that the
    result depends on how far a batch was padded, unless `padded_to` fixes that.

    Args:
        variant: "paper" is equation 3: one weight per position and padding without a part in it.
        token_weight: ω_1 of equation 5 as a fixed number from 0 to 1 (table C-2), None to learn
            the balance. 1 leaves the token level alone, 0 the embedding level (table 3).
        padded_to: with "code", the number of positions a set is treated as padded to, whatever its
            batch; longer sets as not padded. None for the batch's padding.
    """

    def __init__(
        self,
        dimension: int,
        variant: PoolingVariant = "paper",
        token_weight: float | None = None,
        padded_to: int | None = None,
    ) -> None:
        super().__init__(dimension)
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

    def _pool(self, features: Tensor, mask: Tensor) -> Tensor:
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
            ranked = nn.functional.pad(ranked, (0, 0, 0, missing))
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


# ---- aggregators that let the elements see each other first, and all poolings by name ------------


class SelfAttention(Pooling):
    """Mean of the elements, to each of which is added what it attends to in all of them.

    Multi-head attention with query, key and value maps and no output map: 3.1 million parameters,
    where table 1 reports 3.2.
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
    """Make one of `POOLINGS` for vectors of width `dimension`, with options of its own.

    Raises InputError if there is no such pooling, it has no such option, or a value is refused; the
    message lists what there is.
    """
    if name not in POOLINGS:
        raise InputError(f"there is no pooling {name!r}; there are: {', '.join(POOLINGS)}")
    known = [option for option in signature(POOLINGS[name]).parameters if option != "dimension"]
    for option in options:
        if option not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise InputError(f"pooling {name!r} has no option {option!r}; {has}")
    if (variant := options.get("variant", "paper")) not in get_args(PoolingVariant):
        raise InputError(f"pooling {name!r} has no variant {variant!r}: use 'paper' or 'code'")
    return POOLINGS[name](dimension, **options)
