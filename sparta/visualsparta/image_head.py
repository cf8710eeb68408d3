"""A photo's vector from what a vision network says of it, without a transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAST = 1e-3  # deviation of a feature, for those that are always 0


class ImageHead(nn.Module):
    """Features of a photo, or of a part of it, to a vector of length 1 and a 1 behind it.

    Two layers beside a linear one, as dual encoders have them. With the 1, a term's bias is the
    last number of its vector.

    Args:
        features: d of the network's vectors, none of whose numbers is negative.
        width: of the hidden layer.
        size: numbers of the vector, the 1 included.
        dropout: share of either layer's inputs that training drops.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, features: int, width: int, size: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(features, width)
        self.output = nn.Linear(width, size - 1)
        self.skip = nn.Linear(features, size - 1, bias=False)

    def standardise(self, features: Tensor) -> None:
        """Take mean and deviation of the features' square roots from examples [N, d]."""
        roots = features.float().sqrt()
        self.mean.copy_(roots.mean(dim=0))
        self.deviation.copy_(roots.std(dim=0).clamp(min=LEAST))

    def direction(self, features: Tensor) -> Tensor:
        """[..., d] to vectors [..., size - 1] of length 1."""
        # The root evens out the few large values that ReLU networks give.
        x = self.dropout((features.float().sqrt() - self.mean) / self.deviation)
        hidden = self.dropout(F.gelu(self.hidden(x)))
        return F.normalize(self.output(hidden) + self.skip(x), dim=-1)

    def forward(self, features: Tensor) -> Tensor:
        """[..., d] to [..., size]."""
        vectors = self.direction(features)
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)
