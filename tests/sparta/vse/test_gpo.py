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
from sparta.vse.pooling.gpo import GPO, ADPool
from sparta.vse.pooling.registry import GCN, GCNSeq2Seq, GraphConvolution, SelfAttention, Seq2Seq
from tests.sparta.vse import published
from tests.sparta.vse.pools import (
    DIMENSION,
    LENGTHS,
    Vector,
    affine,
    assert_computes,
    columns,
    dot,
    gru_states,
    make,
    mean_of,
    moments,
    normalised,
    padded,
    softmax,
)


def gpo(**options: Any) -> GPO:
    pooling = make("gpo", **options)
    assert isinstance(pooling, GPO)
    return pooling


def slow_coefficients(pooling: GPO, n: int, first: int, temperature: float) -> Vector:
    weights = {f"gpool.{name}": value.detach() for name, value in pooling.named_parameters()}
    shares: Vector = published.gpo_shares(weights, n, first, temperature)[:, 0].tolist()
    return shares


@pytest.mark.parametrize(("variant", "first"), [("paper", 1), ("code", 0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_weights_of_positions(variant: str, first: int, temperature: float) -> None:
    pooling = gpo(variant=variant, temperature=temperature)
    for n in (1, 2, 7, 40):
        found = pooling.coefficients(n)
        expected = torch.tensor(slow_coefficients(pooling, n, first, temperature))
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)
        assert not found.requires_grad


def test_the_weighted_sum_of_sorted_values() -> None:
    pooling = gpo()

    def reference(x: list[Vector]) -> Vector:
        theta = slow_coefficients(pooling, len(x), 1, 0.1)
        return [dot(theta, sorted(c, reverse=True)) for c in columns(x)]

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
def test_changed_weights_are_not_served_from_before(
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


def embedding_level(x: list[Vector]) -> Vector:
    """Equation 4."""
    return [dot(softmax(c), c) for c in columns(x)]


def token_level(linear: nn.Linear, x: list[Vector]) -> Vector:
    """Equation 3: u_m is the vector of every dimension's m-th largest value."""
    ranked = [sorted(c, reverse=True) for c in columns(x)]
    theta = softmax([affine(linear, u)[0] for u in columns(ranked)])
    return [dot(theta, c) for c in ranked]


def balanced(balance: nn.Linear, tokens: Vector, embedding: Vector) -> Vector:
    """Equation 5."""
    omega = softmax([affine(balance, tokens)[0], affine(balance, embedding)[0]])
    return [omega[0] * t + omega[1] * e for t, e in zip(tokens, embedding, strict=True)]


def test_equations_3_to_5() -> None:
    pooling = adpool()
    assert_computes(
        pooling,
        lambda x: balanced(pooling.balance, token_level(pooling.linear, x), embedding_level(x)),
        LENGTHS,
    )


def test_padding_dilutes_the_published_codes_result_but_not_the_papers() -> None:
    counts = torch.tensor([4, 2])
    for variant, depends in [("code", True), ("paper", False)]:
        pooling = adpool(variant=variant, token_weight=1.0)
        little, much = (pooling(padded([4, 2], extra)[0], counts) for extra in (0, 10))
        assert torch.allclose(little, much, atol=1e-5) != depends


@pytest.mark.parametrize("weight", [0.0, 0.25, 0.75, 1.0])
def test_a_fixed_balance(weight: float) -> None:
    pooling = adpool(token_weight=weight)

    def reference(x: list[Vector]) -> Vector:
        embedding = embedding_level(x)
        if weight == 0:
            return embedding
        tokens = token_level(pooling.linear, x)
        return [weight * t + (1 - weight) * e for t, e in zip(tokens, embedding, strict=True)]

    assert_computes(pooling, reference, LENGTHS)


@pytest.mark.parametrize("options", [{"padded_to": 5}, {"variant": "code", "padded_to": 0}])
def test_padding_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"padded_to is [05]; it must be at least 1, and is for"):
        adpool(**options)


def add(a: Vector, b: Vector) -> Vector:
    return [x + y for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_self_attention(heads: int) -> None:
    pooling = make("self-attention", heads=heads)
    assert isinstance(pooling, SelfAttention)
    width = DIMENSION // heads

    def reference(x: list[Vector]) -> Vector:
        projected = [affine(pooling.projection, element) for element in x]
        contextual = []
        for i, element in enumerate(x):
            attended: Vector = []
            for head in range(heads):
                q, k, v = (slice(p * DIMENSION + head * width, None) for p in range(3))
                query = projected[i][q][:width]
                logits = [dot(query, other[k][:width]) / math.sqrt(width) for other in projected]
                values = columns([other[v][:width] for other in projected])
                attended += [dot(softmax(logits), c) for c in values]
            contextual.append(add(element, attended))
        return mean_of(contextual)

    assert_computes(pooling, reference, LENGTHS)


def test_seq2seq() -> None:
    pooling = make("seq2seq")
    assert isinstance(pooling, Seq2Seq)
    assert_computes(pooling, lambda x: gru_states(pooling.gru, x)[-1], LENGTHS)


def slow_updates(layer: GraphConvolution, x: list[Vector]) -> list[Vector]:
    """What a graph convolution adds to one set, before the batch norm."""
    messages = columns([affine(layer.message, element) for element in x])
    updates = []
    for element in x:
        theta = affine(layer.theta, element)
        affinity = [dot(theta, affine(layer.phi, other)) / len(x) for other in x]
        updates.append(affine(layer.update, [dot(affinity, c) for c in messages]))
    return updates


def slow_layer(layer: GraphConvolution, x: list[Vector]) -> list[Vector]:
    """A graph convolution in eval mode."""
    norm = layer.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    means, variances = norm.running_mean.tolist(), norm.running_var.tolist()
    changes = [normalised(norm, update, means, variances) for update in slow_updates(layer, x)]
    return [add(element, change) for element, change in zip(x, changes, strict=True)]


def test_gcn() -> None:
    pooling = make("gcn").eval()
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    assert isinstance(layer, GraphConvolution)
    assert_computes(pooling, lambda x: mean_of(slow_layer(layer, x)), LENGTHS)


def test_gcn_in_training_normalises_over_the_real_elements_of_the_batch() -> None:
    pooling = make("gcn")
    assert isinstance(pooling, GCN)
    (layer,) = pooling.layers
    assert isinstance(layer, GraphConvolution)
    features, counts = padded(list(LENGTHS), extra=3, junk=5.0)
    sets = [row[:n].tolist() for row, n in zip(features, LENGTHS, strict=True)]
    updates = [slow_updates(layer, x) for x in sets]
    means, variances = moments([update for of_one in updates for update in of_one])
    expected = []
    for x, of_one in zip(sets, updates, strict=True):
        changes = [normalised(layer.norm, update, means, variances) for update in of_one]
        expected.append(mean_of([add(a, b) for a, b in zip(x, changes, strict=True)]))
    found = pooling(features, counts)
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-3, atol=1e-4)


def test_gcn_seq2seq() -> None:
    pooling = make("gcn-seq2seq").eval()
    assert isinstance(pooling, GCNSeq2Seq)
    assert len(pooling.layers) == 4

    def reference(x: list[Vector]) -> Vector:
        for layer in pooling.layers:
            assert isinstance(layer, GraphConvolution)
            x = slow_layer(layer, x)
        return gru_states(pooling.gru, x)[-1]

    assert_computes(pooling, reference, LENGTHS)
