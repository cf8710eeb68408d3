"""What holds for every pooling, and fixed and learned poolings against their definitions."""

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sparta.errors import InputError
from sparta.vse.aggregators import POOLINGS, make_pooling
from sparta.vse.pooling import LIP, AdaPool, FSPool, GeM, Pooling
from tests.sparta.vse.pools import (
    DIMENSION,
    JUNK,
    LENGTHS,
    affine,
    assert_computes,
    make,
    moments,
    padded,
    softmax,
)

# Every pooling, with the options that change what it computes.
CASES: dict[str, tuple[str, dict[str, Any]]] = {name: (name, {}) for name in POOLINGS} | {
    "k-max of 2": ("k-max", {"k": 2}),
    "gpo as code": ("gpo", {"variant": "code"}),
    "adpool, tokens": ("adpool", {"token_weight": 1.0}),
    "adpool, embedding": ("adpool", {"token_weight": 0.0}),
    "adpool, fixed": ("adpool", {"token_weight": 0.25}),
    "self-attention, 2 heads": ("self-attention", {"heads": 2}),
}
every_case = pytest.mark.parametrize("case", CASES)
sizes = st.lists(st.integers(1, 9), min_size=2, max_size=5)
seeds = st.integers(0, 1000)


def made(case: str, seed: int = 0) -> Pooling:
    name, options = CASES[case]
    return make(name, seed, **options)


def assert_same(found: Tensor, expected: Tensor) -> None:
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@every_case
@settings(max_examples=15)
@given(lengths=sizes, extra=st.integers(0, 6), junk=st.sampled_from(JUNK), seed=seeds)
def test_a_set_as_if_alone(
    case: str, lengths: list[int], extra: int, junk: float, seed: int
) -> None:
    pooling = made(case, seed).eval()
    features, counts = padded(lengths, extra, junk, seed)
    alone = [
        pooling(features[i : i + 1, :length], counts[i : i + 1]) for i, length in enumerate(lengths)
    ]
    assert_same(pooling(features, counts), torch.cat(alone))


@every_case
@settings(max_examples=5)
@given(lengths=sizes, extra=st.integers(1, 6), junk=st.sampled_from(JUNK), seed=seeds)
def test_padding_in_training(
    case: str, lengths: list[int], extra: int, junk: float, seed: int
) -> None:
    without, counts = padded(lengths, seed=seed)
    features, _ = padded(lengths, extra, junk, seed)
    assert_same(made(case, seed)(features, counts), made(case, seed)(without, counts))


@every_case
@pytest.mark.parametrize("junk", [3.0, math.nan, math.inf])
def test_gradients_are_finite_and_padding_has_none(case: str, junk: float) -> None:
    pooling = made(case)
    features, counts = padded([1, 5, 3], extra=2, junk=junk)
    features.requires_grad_()
    pooling(features, counts).square().sum().backward()
    assert features.grad is not None
    assert features.grad.isfinite().all()
    assert features.grad.abs().sum() > 0
    for row, length in zip(features.grad, counts.tolist(), strict=True):
        assert (row[length:] == 0).all()
    for name, parameter in pooling.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@every_case
@pytest.mark.parametrize("values", ["zeros", "large", "negative"])
def test_odd_values_give_finite_results_and_gradients(case: str, values: str) -> None:
    pooling = made(case)
    features = {
        "zeros": torch.zeros(2, 4, DIMENSION),
        "large": 300 * torch.randn(2, 4, DIMENSION),
        "negative": -torch.rand(2, 4, DIMENSION),
    }[values].requires_grad_()
    found = pooling(features, torch.tensor([4, 2]))
    found.sum().backward()
    assert found.isfinite().all()
    assert features.grad is not None
    assert features.grad.isfinite().all()


@every_case
def test_half_precision_loses_nothing_but_the_inputs_digits(case: str) -> None:
    features, counts = padded([1, 40, 17], extra=1, junk=math.inf)
    halved = features.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        found = made(case)(halved, counts)
    found.sum().backward()
    assert halved.grad is not None
    assert halved.grad.isfinite().all()
    assert found.dtype == torch.float32
    assert_same(found, made(case)(halved.float(), counts))


MILLIONS = {"gpo": 0.0127, "adpool": 0.002, "self-attention": 3.15, "seq2seq": 6.30}
MILLIONS |= {"gcn": 4.20, "gcn-seq2seq": 23.10}


@pytest.mark.parametrize(("name", "millions"), MILLIONS.items())
def test_parameters_at_the_papers_width(name: str, millions: float) -> None:
    count = sum(parameter.numel() for parameter in make_pooling(name, 1024).parameters())
    assert count / 1e6 == pytest.approx(millions, rel=0.03)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("average", {}, "no pooling 'average'; there are: mean, max, k-max, gpo"),
        ("k-max", {"n": 3}, "'k-max' has no option 'n'; it has: k"),
        ("k-max", {"k": 0}, "k must be 1 or more, not 0"),
        ("gpo", {"temperature": 0}, "temperature must be positive"),
        ("self-attention", {"heads": 3}, "3 heads do not divide a width of 8"),
    ],
)
def test_what_does_not_exist_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_pooling(name, DIMENSION, **options)


def of_the_largest(k: int) -> Callable[[list[float]], float]:
    return lambda values: mean(sorted(values, reverse=True)[:k])


@pytest.mark.parametrize(
    ("name", "options", "definition"),
    [
        ("mean", {}, mean),
        ("max", {}, max),
        *[("k-max", {"k": k}, of_the_largest(k)) for k in (1, 3, 5, 50)],
        ("cls", {}, lambda values: values[0]),
        ("last", {}, lambda values: values[-1]),
        ("softpool", {}, lambda v: sum(x * math.exp(x) for x in v) / sum(map(math.exp, v))),
    ],
)
def test_fixed(
    name: str, options: dict[str, Any], definition: Callable[[list[float]], float]
) -> None:
    pooling = make(name, **options)
    assert_computes(pooling, lambda x: torch.tensor([definition(c) for c in x.T.tolist()]))


def test_gem() -> None:
    pooling = make("gem")
    assert isinstance(pooling, GeM)
    p = pooling.log_p.exp().item()
    assert_computes(pooling, lambda x: (x.clamp(min=1e-6) ** p).mean(dim=0) ** (1 / p))


def test_fspool() -> None:
    pooling = make("fspool")
    assert isinstance(pooling, FSPool)

    def reference(x: Tensor) -> Tensor:
        total = torch.zeros(DIMENSION)
        for i, values in enumerate(x.sort(dim=0, descending=True).values):
            place = 20 * i / max(len(x) - 1, 1)
            left = min(int(place), 19)
            share = place - left
            weights = (1 - share) * pooling.weight[left] + share * pooling.weight[left + 1]
            total += weights * values
        return total

    assert_computes(pooling, reference, (*LENGTHS, 21, 30))


def test_adapool() -> None:
    pooling = make("adapool")
    assert isinstance(pooling, AdaPool)
    beta = pooling.beta.sigmoid().item()

    def reference(x: Tensor) -> Tensor:
        m = x.mean(dim=0)
        near = (softmax(2 * x * m / (x * x + m * m)) * x).sum(dim=0)
        return beta * near + (1 - beta) * (softmax(x) * x).sum(dim=0)

    assert beta != 0.5
    assert_computes(pooling, reference)


def test_lip() -> None:
    pooling = make("lip")
    assert isinstance(pooling, LIP)

    def reference(x: Tensor) -> Tensor:
        mapped = affine(pooling.linear, x)
        middle, variance = moments(mapped)
        z = (mapped - middle) / (variance + 1e-5).sqrt()
        return (softmax(12 * (pooling.scale * z + pooling.shift).sigmoid()) * x).sum(dim=0)

    assert_computes(pooling, reference)
