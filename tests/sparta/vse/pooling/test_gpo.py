import copy
import io
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sparta.vse.pooling.gpo import GPO, encode_positions
from tests.sparta.vse.pooling.pools import (
    DIMENSION,
    Vector,
    affine,
    assert_computes,
    columns,
    dot,
    gru_states,
    make,
    padded,
    softmax,
)


def gpo(**options: Any) -> GPO:
    pooling = make("gpo", **options)
    assert isinstance(pooling, GPO)
    return pooling


def slow_position(k: int) -> Vector:
    """Equation 4."""
    encoded = []
    for j in range(16):
        w = 1 / 10000 ** (2 * j / 32)
        encoded += [math.sin(w * k), math.cos(w * k)]
    return encoded


def slow_coefficients(pooling: GPO, n: int, first: int, temperature: float) -> Vector:
    """Equations 3 to 5 for one set."""
    positions = [slow_position(k) for k in range(first, first + n)]
    forward = gru_states(pooling.gru, positions)
    backward = gru_states(pooling.gru, positions[::-1], "l0_reverse")[::-1]
    hidden = [
        [(a + b) / 2 for a, b in zip(*both, strict=True)]
        for both in zip(forward, backward, strict=True)
    ]
    return softmax([affine(pooling.linear, h)[0] / temperature for h in hidden])


def test_equation_4() -> None:
    expected = torch.tensor([slow_position(k) for k in range(3, 43)])
    torch.testing.assert_close(encode_positions(3, 40), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("variant", "first"), [("paper", 1), ("code", 0)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_equations_3_and_5(variant: str, first: int, temperature: float) -> None:
    pooling = gpo(variant=variant, temperature=temperature)
    for n in (1, 2, 7):
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


def test_the_papers_and_the_codes_positions_differ() -> None:
    paper, code = gpo(), gpo(variant="code")
    assert not torch.allclose(paper.coefficients(5), code.coefficients(5), atol=1e-3)


# ---- weights kept per length ----------------------------------------------------------------

LENGTHS = [3, 1, 6, 3]


@pytest.fixture
def counted() -> Iterator[tuple[GPO, list[int]]]:
    """A pooling in eval mode without gradients, and a list that grows when its GRU runs."""
    pooling, runs = gpo().eval(), []
    pooling.gru.register_forward_hook(lambda *_: runs.append(1))
    with torch.no_grad():
        yield pooling, runs


def test_kept_weights_are_the_computed_ones(counted: tuple[GPO, list[int]]) -> None:
    pooling, runs = counted
    fresh = gpo()(*padded(LENGTHS))
    for _ in range(2):
        torch.testing.assert_close(pooling(*padded(LENGTHS)), fresh)
    pooling(*padded([6, 3]))
    torch.testing.assert_close(pooling(*padded([3])), gpo()(*padded([3])))
    assert len(runs) == 1
    torch.testing.assert_close(pooling(*padded([3, 8])), gpo()(*padded([3, 8])))
    assert len(runs) == 2


def step(pooling: GPO) -> None:
    """A training step as anybody writes it."""
    with torch.enable_grad():
        optimiser = torch.optim.SGD(pooling.parameters(), lr=0.5)
        pooling.train()(*padded(LENGTHS)).square().sum().backward()
        optimiser.step()
    pooling.eval()


def step_in_eval_mode(pooling: GPO) -> None:
    with torch.enable_grad():
        pooling(*padded(LENGTHS)).square().sum().backward()
        assert all(parameter.grad is not None for parameter in pooling.parameters())
        torch.optim.SGD(pooling.parameters(), lr=0.5).step()


def change_while_training(pooling: GPO) -> None:
    pooling.train()
    pooling.linear.weight.data.neg_()
    pooling.eval()


def load(pooling: GPO) -> None:
    parent = nn.ModuleDict({"pooling": pooling})
    parent.load_state_dict({f"pooling.{k}": -v for k, v in pooling.state_dict().items()})


def change_type(pooling: GPO) -> None:
    pooling.half().float()


@pytest.mark.parametrize(
    "change", [step, step_in_eval_mode, change_while_training, load, change_type]
)
def test_changed_weights_are_not_served_from_before(
    counted: tuple[GPO, list[int]], change: Callable[[GPO], None]
) -> None:
    pooling, _ = counted
    before = pooling(*padded(LENGTHS))
    change(pooling)
    fresh = GPO(DIMENSION)
    fresh.load_state_dict(pooling.state_dict())
    after = pooling(*padded(LENGTHS))
    torch.testing.assert_close(after, fresh(*padded(LENGTHS)))
    assert not torch.equal(after, before)


def test_what_inference_kept_is_neither_in_the_way_nor_saved() -> None:
    pooling = gpo().eval()
    with torch.inference_mode():
        before = pooling(*padded(LENGTHS)).clone()

    def pooled(by: GPO) -> Tensor:
        with torch.no_grad():
            return by(*padded(LENGTHS))

    torch.testing.assert_close(pooled(pooling), before)
    torch.testing.assert_close(pooled(copy.deepcopy(pooling)), before)
    assert set(pooling.state_dict()) == set(GPO(DIMENSION).state_dict())
    torch.save(pooling, io.BytesIO())
    pooling.train()(*padded(LENGTHS)).sum().backward()
    assert pooling.linear.weight.grad is not None
