"""A photo's vector from what a vision network says of it, without a transformer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAST = 1e-3  # deviation of a feature, for those that are always 0
SMALLEST = 1e-6  # number whose root has a gradient


class ImageHead(nn.Module):
    """Features of a photo and of its parts to vectors of length 1 with a 1 behind.

    Two layers beside a linear one, as dual encoders have them. With the 1, a term's bias is the
    last number of its vector.

    Args:
        features: d of the network's vectors.
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
        roots = signed_root(features)
        self.mean.copy_(roots.mean(dim=0))
        self.deviation.copy_(roots.std(dim=0).clamp(min=LEAST))

    def direction(self, features: Tensor) -> Tensor:
        """[..., d] of whole photos to vectors [..., size - 1] of length 1."""
        x = self.dropout(self._standard(features))
        hidden = self.dropout(F.gelu(self.hidden(x)))
        return F.normalize(self.output(hidden) + self.skip(x), dim=-1)

    def forward(self, regions: Tensor) -> Tensor:
        """Regions [B, n, d] of photos to [B, n, size].

        The last one is the whole photo. The others go through the linear layer alone, which finds
        the objects of terms as well as both do, in a fifth of the time.
        """
        parts = F.normalize(self.skip(self._standard(regions[:, :-1])), dim=-1)
        vectors = torch.cat([parts, self.direction(regions[:, -1:])], dim=1)
        return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)

    def _standard(self, features: Tensor) -> Tensor:
        return (signed_root(features) - self.mean) / self.deviation


def signed_root(features: Tensor) -> Tensor:
    """Square roots, signs kept, in float32: they even out the few large values of ReLU networks."""
    values = features.float()
    # The root's gradient at 0 is infinite; below the limit it is none.
    return values.sign() * values.abs().clamp(min=SMALLEST).sqrt()
