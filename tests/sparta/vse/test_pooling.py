"""Poolings against their definitions, element by element, and what holds for all of them."""

import math
from collections.abc import Callable
from statistics import mean
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.vse.aggregators import (
    GCN,
    GPO,
    POOLINGS,
    ADPool,
    GCNSeq2Seq,
    SelfAttention,
    Seq2Seq,
    make_pooling,
)
from sparta.vse.pooling import LIP, AdaPool, FSPool, GeM, Pooling
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


# ---- GPO, ADPOOL and the contextual aggregators --------------------------------------------------


def gpo(**options: Any) -> GPO:
    pooling = make("gpo", **options)
    assert isinstance(pooling, GPO)
    return pooling


def slow_coefficients(pooling: GPO, n: int, first: int, temperature: float) -> Tensor:
    weights = {f"gpool.{name}": value.detach() for name, value in pooling.named_parameters()}
    return published.gpo_shares(weights, n, first, temperature)


def descending(x: Tensor) -> Tensor:
    """Every dimension sorted by itself."""
    return torch.stack([torch.tensor(sorted(c, reverse=True)) for c in x.T.tolist()], dim=1)


@pytest.mark.parametrize(("variant", "first"), [("paper", 1), ("code", 0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_the_weighted_sum_of_sorted_values(variant: str, first: int, temperature: float) -> None:
    pooling = gpo(variant=variant, temperature=temperature)

    def reference(x: Tensor) -> Tensor:
        shares = slow_coefficients(pooling, len(x), first, temperature)
        return (shares * descending(x)).sum(dim=0)

    assert_computes(pooling, reference, lengths=(3, 1, 6, 3, 40))


# ---- weights kept per length ----------------------------------------------------------------

GPO_LENGTHS = [3, 1, 6, 3]


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
    pooling, runs = gpo().eval(), list[int]()
    pooling.gru.register_forward_hook(lambda *_: runs.append(1))
    before = pooling(*padded(GPO_LENGTHS))
    assert torch.equal(pooling(*padded(GPO_LENGTHS)), before) and len(runs) == 1  # kept
    change(pooling)
    fresh = GPO(DIMENSION)
    fresh.load_state_dict(pooling.state_dict())
    after = pooling(*padded(GPO_LENGTHS))
    torch.testing.assert_close(after, fresh(*padded(GPO_LENGTHS)))
    assert not torch.equal(after, before)


def adpool(**options: Any) -> ADPool:
    pooling = make("adpool", **options)
    assert isinstance(pooling, ADPool)
    return pooling


def embedding_level(x: Tensor) -> Tensor:
    """Equation 4."""
    return (softmax(x) * x).sum(dim=0)


def token_level(linear: nn.Linear, x: Tensor) -> Tensor:
    """Equation 3: u_m is the vector of every dimension's m-th largest value."""
    ranked = descending(x)
    return (softmax(affine(linear, ranked)) * ranked).sum(dim=0)


def balanced(balance: nn.Linear, both: Tensor) -> Tensor:
    """Equation 5."""
    return (softmax(affine(balance, both)) * both).sum(dim=0)


def test_equations_3_to_5() -> None:
    pooling = adpool()

    def reference(x: Tensor) -> Tensor:
        levels = torch.stack([token_level(pooling.linear, x), embedding_level(x)])
        return balanced(pooling.balance, levels)

    assert_computes(pooling, reference)


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.75, 1.0])
def test_a_fixed_balance(weight: float) -> None:
    pooling = adpool(token_weight=weight)

    def reference(x: Tensor) -> Tensor:
        tokens = token_level(pooling.linear, x) if weight else torch.zeros(DIMENSION)
        return weight * tokens + (1 - weight) * embedding_level(x)

    assert_computes(pooling, reference)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_self_attention(heads: int) -> None:
    pooling = make("self-attention", heads=heads)
    assert isinstance(pooling, SelfAttention)

    def reference(x: Tensor) -> Tensor:
        queries, keys, values = (
            part.chunk(heads, dim=1) for part in affine(pooling.projection, x).chunk(3, dim=1)
        )
        attended = [
            softmax((q @ k.T / math.sqrt(q.shape[1])).T).T @ v
            for q, k, v in zip(queries, keys, values, strict=True)
        ]
        return (x + torch.cat(attended, dim=1)).mean(dim=0)

    assert_computes(pooling, reference)


def test_seq2seq() -> None:
    pooling = make("seq2seq")
    assert isinstance(pooling, Seq2Seq)
    assert_computes(pooling, lambda x: gru_states(pooling.gru, x)[-1])


def slow_updates(layer: Any, x: Tensor) -> Tensor:
    """What a graph convolution adds to one set, before the batch norm."""
    affinity = affine(layer.theta, x) @ affine(layer.phi, x).T / len(x)
    return affine(layer.update, affinity @ affine(layer.message, x))


def slow_layer(layer: Any, x: Tensor) -> Tensor:
    """A graph convolution in eval mode."""
    norm = layer.norm
    return x + normalised(norm, slow_updates(layer, x), norm.running_mean, norm.running_var)


def test_gcn() -> None:
    pooling = make("gcn").eval()
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    assert_computes(pooling, lambda x: slow_layer(layer, x).mean(dim=0))


def test_gcn_seq2seq() -> None:
    pooling = make("gcn-seq2seq").eval()
    assert isinstance(pooling, GCNSeq2Seq)
    assert len(pooling.layers) == 4

    def reference(x: Tensor) -> Tensor:
        for layer in pooling.layers:
            x = slow_layer(layer, x)
        return gru_states(pooling.gru, x)[-1]

    assert_computes(pooling, reference)
