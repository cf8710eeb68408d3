import math

import pytest
import torch

from sparta.vse.pooling.learned import LIP, AdaPool, FSPool, GeM
from tests.sparta.vse.pooling.pools import (
    DIMENSION,
    Vector,
    affine,
    assert_computes,
    columns,
    dot,
    make,
    padded,
    sigmoid,
    softmax,
)

LENGTHS = (1, 4, 7, 2)


def test_gem() -> None:
    pooling = make("gem")
    assert isinstance(pooling, GeM)
    p = pooling.log_p.exp().item()

    def reference(x: list[Vector]) -> Vector:
        floored = [[max(v, 1e-6) for v in c] for c in columns(x)]
        return [(sum(v**p for v in c) / len(c)) ** (1 / p) for c in floored]

    assert_computes(pooling, reference, LENGTHS)


@pytest.mark.parametrize(("p", "name"), [(1.0, "mean"), (300.0, "max")])
def test_gem_lies_between_the_mean_and_the_maximum(p: float, name: str) -> None:
    pooling = make("gem")
    assert isinstance(pooling, GeM)
    with torch.no_grad():
        pooling.log_p.fill_(math.log(p))
    features, lengths = padded([1, 5, 9])
    features = features.abs() + 0.1
    expected = make(name)(features, lengths)
    torch.testing.assert_close(pooling(features, lengths), expected, rtol=0.01, atol=0)


def test_gem_starts_at_three() -> None:
    assert GeM(DIMENSION).log_p.exp().item() == pytest.approx(3)


def test_fspool() -> None:
    pooling = make("fspool")
    assert isinstance(pooling, FSPool)
    points = columns(pooling.weight.tolist())  # 21 for each dimension

    def weight(dimension: int, rank: float) -> float:
        place = 20 * rank
        left = min(int(place), 19)
        share = place - left
        return (1 - share) * points[dimension][left] + share * points[dimension][left + 1]

    def reference(x: list[Vector]) -> Vector:
        ranks = [i / max(len(x) - 1, 1) for i in range(len(x))]
        return [
            dot([weight(j, rank) for rank in ranks], sorted(c, reverse=True))
            for j, c in enumerate(columns(x))
        ]

    assert_computes(pooling, reference, (*LENGTHS, 21, 30))


def test_adapool() -> None:
    pooling = make("adapool")
    assert isinstance(pooling, AdaPool)
    beta = sigmoid(pooling.beta.item())

    def reference(x: list[Vector]) -> Vector:
        pooled = []
        for c in columns(x):
            m = sum(c) / len(c)
            near = dot(softmax([2 * v * m / (v * v + m * m) for v in c]), c)
            pooled.append(beta * near + (1 - beta) * dot(softmax(c), c))
        return pooled

    assert beta != 0.5
    assert_computes(pooling, reference, LENGTHS)


def test_lip() -> None:
    pooling = make("lip")
    assert isinstance(pooling, LIP)

    def reference(x: list[Vector]) -> Vector:
        pooled = []
        mapped = columns([affine(pooling.linear, element) for element in x])
        for j, (c, z) in enumerate(zip(columns(x), mapped, strict=True)):
            mean = sum(z) / len(z)
            spread = math.sqrt(sum((v - mean) ** 2 for v in z) / len(z) + 1e-5)
            scale, shift = pooling.scale[j].item(), pooling.shift[j].item()
            logits = [12 * sigmoid(scale * (v - mean) / spread + shift) for v in z]
            pooled.append(dot(softmax(logits), c))
        return pooled

    assert_computes(pooling, reference, LENGTHS)


def test_lip_starts_as_the_mean() -> None:
    features, lengths = padded([1, 5, 9])
    torch.testing.assert_close(LIP(DIMENSION)(features, lengths), make("mean")(features, lengths))
