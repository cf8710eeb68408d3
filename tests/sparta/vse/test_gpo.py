"""GPO, ADPOOL and the contextual aggregators against their equations, element by element."""

import copy
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.vse.aggregators import GCN, GCNSeq2Seq, SelfAttention, Seq2Seq
from sparta.vse.gpo import GPO, ADPool
from tests.sparta.vse import published
from tests.sparta.vse.pools import (
    DIMENSION,
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


def gpo(**options: Any) -> GPO:
    pooling = make("gpo", **options)
    assert isinstance(pooling, GPO)
    return pooling


def slow_coefficients(pooling: GPO, n: int, first: int, temperature: float) -> Tensor:
    weights = {f"gpool.{name}": value.detach() for name, value in pooling.named_parameters()}
    return published.gpo_shares(weights, n, first, temperature)


@pytest.mark.parametrize(("variant", "first"), [("paper", 1), ("code", 0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_weights_of_positions(variant: str, first: int, temperature: float) -> None:
    pooling = gpo(variant=variant, temperature=temperature)
    for n in (1, 2, 7, 40):
        found = pooling.coefficients(n)
        expected = slow_coefficients(pooling, n, first, temperature)[:, 0]
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
        assert not found.requires_grad


def descending(x: Tensor) -> Tensor:
    """Every dimension sorted by itself."""
    return torch.stack([torch.tensor(sorted(c, reverse=True)) for c in x.T.tolist()], dim=1)


def test_the_weighted_sum_of_sorted_values() -> None:
    pooling = gpo()

    def reference(x: Tensor) -> Tensor:
        return (slow_coefficients(pooling, len(x), 1, 0.1) * descending(x)).sum(dim=0)

    assert_computes(pooling, reference, lengths=(3, 1, 6, 3))


# ---- weights kept per length ----------------------------------------------------------------

GPO_LENGTHS = [3, 1, 6, 3]


@pytest.fixture
def counted() -> Iterator[tuple[GPO, list[int]]]:
    """A pooling in eval mode without gradients, and a list that grows when its GRU runs."""
    pooling, runs = gpo().eval(), []
    pooling.gru.register_forward_hook(lambda *_: runs.append(1))
    with torch.no_grad():
        yield pooling, runs


def test_kept_weights_are_the_computed_ones(counted: tuple[GPO, list[int]]) -> None:
    pooling, runs = counted
    fresh = gpo()(*padded(GPO_LENGTHS))
    for _ in range(2):
        torch.testing.assert_close(pooling(*padded(GPO_LENGTHS)), fresh)
    pooling(*padded([6, 3]))
    torch.testing.assert_close(pooling(*padded([3])), gpo()(*padded([3])))
    assert len(runs) == 1
    torch.testing.assert_close(pooling(*padded([3, 8])), gpo()(*padded([3, 8])))
    assert len(runs) == 2


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
def test_changed_weights_count(
    counted: tuple[GPO, list[int]], change: Callable[[GPO], None]
) -> None:
    pooling, _ = counted
    before = pooling(*padded(GPO_LENGTHS))
    change(pooling)
    fresh = GPO(DIMENSION)
    fresh.load_state_dict(pooling.state_dict())
    after = pooling(*padded(GPO_LENGTHS))
    torch.testing.assert_close(after, fresh(*padded(GPO_LENGTHS)))
    assert not torch.equal(after, before)


def test_what_inference_kept_is_neither_in_the_way_nor_saved() -> None:
    pooling = gpo().eval()
    with torch.inference_mode():
        before = pooling(*padded(GPO_LENGTHS)).clone()

    def pooled(by: GPO) -> Tensor:
        with torch.no_grad():
            return by(*padded(GPO_LENGTHS))

    torch.testing.assert_close(pooled(pooling), before)
    torch.testing.assert_close(pooled(copy.deepcopy(pooling)), before)
    assert set(pooling.state_dict()) == set(GPO(DIMENSION).state_dict())
    torch.save(pooling, io.BytesIO())
    pooling.train()(*padded(GPO_LENGTHS)).sum().backward()
    assert pooling.linear.weight.grad is not None


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


def test_padding_dilutes_the_published_codes_result_but_not_the_papers() -> None:
    counts = torch.tensor([4, 2])
    for variant, depends in [("code", True), ("paper", False)]:
        pooling = adpool(variant=variant, token_weight=1.0)
        little, much = (pooling(padded([4, 2], extra)[0], counts) for extra in (0, 10))
        assert torch.allclose(little, much, atol=1e-5) != depends


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.75, 1.0])
def test_a_fixed_balance(weight: float) -> None:
    pooling = adpool(token_weight=weight)

    def reference(x: Tensor) -> Tensor:
        tokens = token_level(pooling.linear, x) if weight else torch.zeros(DIMENSION)
        return weight * tokens + (1 - weight) * embedding_level(x)

    assert_computes(pooling, reference)


@pytest.mark.parametrize("options", [{"padded_to": 5}, {"variant": "code", "padded_to": 0}])
def test_padding_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"padded_to is [05]; it must be at least 1, and is for"):
        adpool(**options)


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


def test_gcn_in_training_normalises_over_the_real_elements_of_the_batch() -> None:
    pooling = make("gcn")
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    norm: Any = layer.norm
    features, counts = padded(list(LENGTHS), extra=3, junk=5.0)
    sets = [row[:n] for row, n in zip(features, LENGTHS, strict=True)]
    updates = [slow_updates(layer, x) for x in sets]
    both = moments(torch.cat(updates))
    expected = [
        (x + normalised(norm, update, *both)).mean(dim=0)
        for x, update in zip(sets, updates, strict=True)
    ]
    found = pooling(features, counts)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-3, atol=1e-4)


def test_gcn_seq2seq() -> None:
    pooling = make("gcn-seq2seq").eval()
    assert isinstance(pooling, GCNSeq2Seq)
    assert len(pooling.layers) == 4

    def reference(x: Tensor) -> Tensor:
        for layer in pooling.layers:
            x = slow_layer(layer, x)
        return gru_states(pooling.gru, x)[-1]

    assert_computes(pooling, reference)
