"""The visual projection computed number by number."""

import math
from typing import Any

from sparta.vse.encoders import VisualProjection
from tests.sparta.vse.pooling.pools import Vector, affine


def slow_projection(module: VisualProjection, rows: list[Vector], training: bool) -> list[Vector]:
    """FC(x) + MLP(x) number by number, the statistics those of exactly these rows in training."""
    assert module.mlp is not None
    parts: Any = module.mlp
    first, norm, _, last = parts
    inner = [affine(first, row) for row in rows]
    means, variances = norm.running_mean.tolist(), norm.running_var.tolist()
    if training:
        means = [math.fsum(column) / len(rows) for column in zip(*inner, strict=True)]
        variances = [
            math.fsum((x - mean) ** 2 for x in column) / len(rows)
            for column, mean in zip(zip(*inner, strict=True), means, strict=True)
        ]
    scale, shift = norm.weight.tolist(), norm.bias.tolist()
    found = []
    for row, hidden in zip(rows, inner, strict=True):
        normal = [
            (x - means[j]) / math.sqrt(variances[j] + norm.eps) * scale[j] + shift[j]
            for j, x in enumerate(hidden)
        ]
        mlp = affine(last, [max(0.0, x) for x in normal])
        found.append([a + b for a, b in zip(affine(module.linear, row), mlp, strict=True)])
    return found
