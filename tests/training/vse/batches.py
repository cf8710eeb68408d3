"""Batches of random similarities for the objectives' tests."""

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

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


def batches(views: bool) -> st.SearchStrategy[tuple[torch.Tensor, torch.Tensor]]:
    """Similarities and `different`, of 1 to 6 pairs, some of one photo, some tied."""

    @st.composite
    def draw_one(draw: Callable[[st.SearchStrategy[Any]], Any]) -> tuple[Any, Any]:
        photos = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
        shape = (len(photos), len(photos)) + ((draw(st.integers(1, 4)),) if views else ())
        values = similarities(draw(st.integers(0, 10**6)), *shape)
        if draw(st.booleans()):
            values = values.detach().round(decimals=1).requires_grad_()
        return values, different(photos)

    return draw_one()


def shuffled(
    values: torch.Tensor, apart: torch.Tensor, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same batch with its pairs in another order."""
    order = torch.randperm(len(apart), generator=torch.Generator().manual_seed(seed))
    return values[order][:, order], apart[order][:, order]


def gradient(values: torch.Tensor, loss: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(loss, values)
    return found
