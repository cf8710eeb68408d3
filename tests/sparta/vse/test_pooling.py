"""Poolings against their definitions, element by element, and what holds for all of them."""

import math
from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.vse.aggregators import (
    GPO,
    POOLINGS,
    make_pooling,
)
from sparta.vse.pooling import Pooling
from tests.sparta.vse import published
from tests.sparta.vse.models import (
    DIMENSION,
    JUNK,
    LENGTHS,
    affine,
    assert_computes,
    gru_states,
    make,
    moments,
    normalised,
    padded,
    softmax,
)

# ---- slow definitions: what a pooling makes of one set [n, d] ------------------------------------

Reference = Callable[[Any, Tensor], Tensor]


def each(definition: Callable[[list[float]], float]) -> Reference:
    """Of the values of every dimension by themselves."""
    return lambda _, x: torch.tensor([definition(values) for values in x.T.tolist()])


def of_the_largest(k: int) -> Reference:
    return each(lambda values: mean(sorted(values, reverse=True)[:k]))


def gem(pooling: Any, x: Tensor) -> Tensor:
    p = pooling.log_p.exp()
    return (x.clamp(min=1e-6) ** p).mean(dim=0) ** (1 / p)


def descending(x: Tensor) -> Tensor:
    """Every dimension sorted by itself."""
    return torch.stack([torch.tensor(sorted(c, reverse=True)) for c in x.T.tolist()], dim=1)


def fspool(pooling: Any, x: Tensor) -> Tensor:
    total = torch.zeros(DIMENSION)
    for i, values in enumerate(descending(x)):
        place = 20 * i / max(len(x) - 1, 1)
        left = min(int(place), 19)
        share = place - left
        total += ((1 - share) * pooling.weight[left] + share * pooling.weight[left + 1]) * values
    return total


def adapool(pooling: Any, x: Tensor) -> Tensor:
    beta, m = pooling.beta.sigmoid(), x.mean(dim=0)
    near = (softmax(2 * x * m / (x * x + m * m)) * x).sum(dim=0)
    return beta * near + (1 - beta) * (softmax(x) * x).sum(dim=0)


def lip(pooling: Any, x: Tensor) -> Tensor:
    mapped = affine(pooling.linear, x)
    middle, variance = moments(mapped)
    z = (mapped - middle) / (variance + 1e-5).sqrt()
    return (softmax(12 * (pooling.scale * z + pooling.shift).sigmoid()) * x).sum(dim=0)


def gpo(first: int = 1, temperature: float = 0.1) -> Reference:
    def reference(pooling: Any, x: Tensor) -> Tensor:
        weights = {f"gpool.{name}": value.detach() for name, value in pooling.named_parameters()}
        shares = published.gpo_shares(weights, len(x), first, temperature)
        return (shares * descending(x)).sum(dim=0)

    return reference


def adpool(token_weight: float | None = None) -> Reference:
    """Equations 3 to 5, or a fixed balance; the ranked rows are u_1 to u_n."""

    def reference(pooling: Any, x: Tensor) -> Tensor:
        ranked, embedding_level = descending(x), (softmax(x) * x).sum(dim=0)
        if token_weight == 0:
            return embedding_level
        token_level = (softmax(affine(pooling.linear, ranked)) * ranked).sum(dim=0)
        levels = torch.stack([token_level, embedding_level])
        if token_weight is None:
            return (softmax(affine(pooling.balance, levels)) * levels).sum(dim=0)
        return token_weight * token_level + (1 - token_weight) * embedding_level

    return reference


def self_attention(heads: int) -> Reference:
    def reference(pooling: Any, x: Tensor) -> Tensor:
        queries, keys, values = (
            part.chunk(heads, dim=1) for part in affine(pooling.projection, x).chunk(3, dim=1)
        )
        attended = [
            softmax((q @ k.T / math.sqrt(q.shape[1])).T).T @ v
            for q, k, v in zip(queries, keys, values, strict=True)
        ]
        return (x + torch.cat(attended, dim=1)).mean(dim=0)

    return reference


def seq2seq(pooling: Any, x: Tensor) -> Tensor:
    return gru_states(pooling.gru, x)[-1]


def convolved(pooling: Any, x: Tensor) -> Tensor:
    """Graph convolutions in eval mode."""
    for layer in pooling.layers:
        affinity = affine(layer.theta, x) @ affine(layer.phi, x).T / len(x)
        update, norm = affine(layer.update, affinity @ affine(layer.message, x)), layer.norm
        x = x + normalised(norm, update, norm.running_mean, norm.running_var)
    return x


# Every pooling, with the options that change what it computes.
CASES: dict[str, tuple[str, dict[str, Any], Reference]] = {
    "mean": ("mean", {}, each(mean)),
    "max": ("max", {}, each(max)),
    **{f"k-max of {k}": ("k-max", {"k": k}, of_the_largest(k)) for k in (1, 3, 50)},
    "cls": ("cls", {}, each(lambda values: values[0])),
    "last": ("last", {}, each(lambda values: values[-1])),
    "softpool": ("softpool", {}, lambda _, x: (softmax(x) * x).sum(dim=0)),
    "gem": ("gem", {}, gem),
    "fspool": ("fspool", {}, fspool),
    "adapool": ("adapool", {}, adapool),
    "lip": ("lip", {}, lip),
    "gpo": ("gpo", {}, gpo()),
    "gpo as code": ("gpo", {"variant": "code"}, gpo(first=0)),
    "gpo, warm": ("gpo", {"temperature": 1.0}, gpo(temperature=1.0)),
    "adpool": ("adpool", {}, adpool()),
    **{f"adpool, {w}": ("adpool", {"token_weight": w}, adpool(w)) for w in (0.0, 0.25, 1.0)},
    **{
        f"self-attention, {n} heads": ("self-attention", {"heads": n}, self_attention(n))
        for n in (1, 2, 8)
    },
    "seq2seq": ("seq2seq", {}, seq2seq),
    "gcn": ("gcn", {}, lambda pooling, x: convolved(pooling, x).mean(dim=0)),
    "gcn-seq2seq": ("gcn-seq2seq", {}, lambda pooling, x: seq2seq(pooling, convolved(pooling, x))),
}
every_case = pytest.mark.parametrize("case", CASES)
sizes = st.lists(st.integers(1, 9), min_size=2, max_size=5)
seeds = st.integers(0, 1000)


def made(case: str, seed: int = 0) -> Pooling:
    name, options, _ = CASES[case]
    return make(name, seed, **options)


def assert_same(found: Tensor, expected: Tensor) -> None:
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@every_case
def test_definitions(case: str) -> None:
    pooling = made(case)
    if "gcn" in case:
        pooling.eval()
    assert_computes(pooling, partial(CASES[case][2], pooling), (*LENGTHS, 21, 30))


def test_every_pooling_has_a_definition() -> None:
    assert {name for name, _, _ in CASES.values()} == set(POOLINGS)


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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("average", {}, "no pooling 'average'; there are: mean, max, k-max, gpo"),
        ("k-max", {"n": 3}, "'k-max' has no option 'n'; it has: k"),
        ("k-max", {"k": 0}, "k must be 1 or more, not 0"),
        ("gpo", {"temperature": 0}, "temperature must be positive"),
        ("self-attention", {"heads": 3}, "3 heads do not divide a width of 8"),
        *[
            ("adpool", options, r"padded_to is [05]; it must be at least 1, and is for")
            for options in ({"padded_to": 5}, {"variant": "code", "padded_to": 0})
        ],
    ],
)
def test_what_does_not_exist_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_pooling(name, DIMENSION, **options)


# ---- weights kept per length ----------------------------------------------------------------

GPO_LENGTHS = [3, 1, 6, 3]


def new() -> GPO:
    pooling = make("gpo")
    assert isinstance(pooling, GPO)
    return pooling


def step(pooling: GPO) -> None:
    """A training step as anybody writes it."""
    with torch.enable_grad():
        optimiser = torch.optim.SGD(pooling.parameters(), lr=0.5)
        pooling.train()(*padded(GPO_LENGTHS)).square().sum().backward()
        optimiser.step()
    pooling.eval()


def step_in_eval_mode(pooling: GPO) -> None:
    with torch.enable_grad():
        pooling(*padded(GPO_LENGTHS)).square().sum().backward()
        assert all(parameter.grad is not None for parameter in pooling.parameters())
        torch.optim.SGD(pooling.parameters(), lr=0.5).step()


def load(pooling: GPO) -> None:
    parent = nn.ModuleDict({"pooling": pooling})
    parent.load_state_dict({f"pooling.{k}": -v for k, v in pooling.state_dict().items()})


@pytest.mark.parametrize("change", [step, step_in_eval_mode, load])
@torch.no_grad()
def test_changed_weights_count(change: Callable[[GPO], None]) -> None:
    pooling, runs = new().eval(), list[int]()
    pooling.gru.register_forward_hook(lambda *_: runs.append(1))
    before = pooling(*padded(GPO_LENGTHS))
    assert torch.equal(pooling(*padded(GPO_LENGTHS)), before) and len(runs) == 1  # kept
    change(pooling)
    fresh = GPO(DIMENSION)
    fresh.load_state_dict(pooling.state_dict())
    after = pooling(*padded(GPO_LENGTHS))
    torch.testing.assert_close(after, fresh(*padded(GPO_LENGTHS)))
    torch.testing.assert_close(pooling(*padded([6, 8])), fresh(*padded([6, 8])))  # one is kept
    assert not torch.equal(after, before)
