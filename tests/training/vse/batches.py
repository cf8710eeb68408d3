"""Batches of random similarities for the objectives' tests."""

from typing import Any

import torch

# Photos 3 and 5 have two captions each.
PHOTOS = [3, 5, 3, 8, 9, 5, 1]
Nested = Any  # similarities as nested lists


def similarities(seed: int, *shape: int) -> torch.Tensor:
    """Cosines with a gradient, positives above the others on average."""
    generator = torch.Generator().manual_seed(seed)
    found = (0.4 * torch.randn(shape, generator=generator, dtype=torch.float64)).tanh()
    found.diagonal().add_(0.3)
    return found.requires_grad_()


def different(photos: list[int]) -> torch.Tensor:
    own = torch.tensor(photos)
    return own[:, None] != own


def gradient(values: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(loss, values)
    return found
