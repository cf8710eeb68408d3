"""What the tests of the poolings share: padded batches, and the slow arithmetic of one set."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sparta.vse.aggregators import make_pooling
from sparta.vse.pooling import Pooling
from tests.sparta.vse.published import states

DIMENSION = 8
LENGTHS = (1, 4, 7, 2)  # of the sets that are compared with a reference
JUNK = [0.0, 7.0, -1e30, 1e30, math.nan, math.inf, -math.inf]


def make(name: str, seed: int = 0, **options: Any) -> Pooling:
    """A pooling none of whose parameters stands at a starting value that hides it."""
    torch.manual_seed(seed)
    pooling = make_pooling(name, DIMENSION, **options)
    with torch.no_grad():
        for parameter in pooling.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for module in pooling.modules():
            if isinstance(module, nn.BatchNorm1d):
                # Small: graph convolutions in a row are powers of three of what they are given.
                module.weight.mul_(0.1)
                module.running_mean = torch.randn(DIMENSION)
                module.running_var = torch.rand(DIMENSION) + 0.5
    return pooling


def padded(
    lengths: list[int], extra: int = 0, junk: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Random sets of the given sizes, the same whatever stands behind them and how far."""
    features = torch.full((len(lengths), max(lengths) + extra, DIMENSION), junk)
    for i, length in enumerate(lengths):
        generator = torch.Generator().manual_seed(seed + i)
        features[i, :length] = 2 * torch.randn(length, DIMENSION, generator=generator)
    return features, torch.tensor(lengths)


def assert_computes(
    pooling: Pooling, reference: Callable[[Tensor], Tensor], lengths: tuple[int, ...] = LENGTHS
) -> None:
    """Every row of a padded batch is what the reference makes of that set [n, d] alone."""
    features, sizes = padded(list(lengths), extra=2, junk=5.0)
    found = pooling(features, sizes)
    assert found.dtype == torch.float32
    for row, elements, length in zip(found, features, lengths, strict=True):
        with torch.no_grad():
            expected = reference(elements[:length])
        torch.testing.assert_close(row, expected, rtol=2e-4, atol=1e-5)


def softmax(logits: Tensor) -> Tensor:
    """Over the elements of a set."""
    return logits.exp() / logits.exp().sum(dim=0)


def affine(linear: nn.Linear, rows: Tensor) -> Tensor:
    found = rows @ linear.weight.T
    return found if linear.bias is None else found + linear.bias


def normalised(norm: Any, rows: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """What a batch norm makes of elements."""
    return (rows - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of every dimension."""
    return rows.mean(dim=0), (rows - rows.mean(dim=0)).square().mean(dim=0)


def gru_states(gru: nn.GRU, inputs: Tensor) -> Tensor:
    weights = {f"gru.{name}": parameter.detach() for name, parameter in gru.named_parameters()}
    return states(weights, "gru", inputs)
