"""What the tests of the poolings share: padded batches, and slow arithmetic on plain lists."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sparta.vse.pooling.base import Pooling
from sparta.vse.pooling.registry import make_pooling
from tests.sparta.vse.published import states

DIMENSION = 8
LENGTHS = (1, 4, 7, 2)  # of the sets that are compared with a reference
JUNK = [0.0, 7.0, -1e30, 1e30, math.nan, math.inf, -math.inf]

Vector = list[float]


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
    pooling: Pooling, reference: Callable[[list[Vector]], Vector], lengths: tuple[int, ...]
) -> None:
    """Every row of a padded batch is what the reference makes of that set alone."""
    features, sizes = padded(list(lengths), extra=2, junk=5.0)
    found = pooling(features, sizes)
    assert found.dtype == torch.float32
    for row, elements, length in zip(found, features, lengths, strict=True):
        expected = torch.tensor(reference(elements[:length].tolist()))
        torch.testing.assert_close(row, expected, rtol=2e-4, atol=1e-5)


def columns(elements: list[Vector]) -> list[Vector]:
    return [list(column) for column in zip(*elements, strict=True)]


def mean_of(elements: list[Vector]) -> Vector:
    return [math.fsum(column) / len(column) for column in columns(elements)]


def moments(elements: list[Vector]) -> tuple[Vector, Vector]:
    """Mean and biased variance of every dimension."""
    means = mean_of(elements)
    squares = [[(v - m) ** 2 for v, m in zip(e, means, strict=True)] for e in elements]
    return means, mean_of(squares)


def normalised(norm: Any, vector: Vector, means: Vector, variances: Vector) -> Vector:
    """What a batch norm makes of one element."""
    scales, shifts = norm.weight.tolist(), norm.bias.tolist()
    parts = zip(vector, means, variances, scales, shifts, strict=True)
    return [(v - m) / math.sqrt(var + norm.eps) * a + b for v, m, var, a, b in parts]


def softmax(logits: Vector) -> Vector:
    total = sum(math.exp(logit) for logit in logits)
    return [math.exp(logit) / total for logit in logits]


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def affine(linear: nn.Linear, vector: Vector) -> Vector:
    biases = [0.0] * linear.out_features if linear.bias is None else linear.bias.tolist()
    rows = linear.weight.tolist()
    return [dot(row, vector) + bias for row, bias in zip(rows, biases, strict=True)]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def gru_states(gru: nn.GRU, inputs: list[Vector], suffix: str = "") -> list[Vector]:
    """States of one direction of a GRU, the reverse one's in the order of the inputs."""
    weights = {f"gru.{name}": parameter.detach() for name, parameter in gru.named_parameters()}
    return states(weights, "gru", torch.tensor(inputs), suffix).tolist()
