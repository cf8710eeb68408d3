from typing import Any

import pytest
import torch
from torch import nn

from sparta.errors import InputError
from sparta.vse.pooling.adpool import ADPool
from tests.sparta.vse.pooling.pools import (
    Vector,
    affine,
    assert_computes,
    columns,
    dot,
    make,
    padded,
    softmax,
)

LENGTHS = (1, 4, 7, 2)


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


def token_level_as_code(linear: nn.Linear, x: list[Vector], padding: int) -> Vector:
    """The published code: weights per dimension behind a ReLU, and padding that has its share."""
    ranked = [sorted(c, reverse=True) + [0.0] * padding for c in columns(x)]
    logits = columns([[max(y, 0.0) for y in affine(linear, u)] for u in columns(ranked)])
    return [dot(softmax(z), c) for z, c in zip(logits, ranked, strict=True)]


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


@pytest.mark.parametrize("extra", [0, 3])
def test_as_the_published_code(extra: int) -> None:
    pooling = adpool(variant="code")
    lengths = [1, 4, 7, 2]
    features, counts = padded(lengths, extra, junk=5.0)
    for row, elements, length in zip(pooling(features, counts), features, lengths, strict=True):
        x = elements[:length].tolist()
        tokens = token_level_as_code(pooling.linear, x, len(elements) - length)
        expected = torch.tensor(balanced(pooling.balance, tokens, embedding_level(x)))
        torch.testing.assert_close(row, expected, rtol=2e-4, atol=1e-5)


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


@pytest.mark.parametrize(
    ("weight", "names"),
    [(None, {"linear", "balance"}), (0.0, set()), (0.5, {"linear"}), (1.0, {"linear"})],
)
def test_only_what_takes_part_has_parameters(weight: float | None, names: set[str]) -> None:
    pooling = adpool(token_weight=weight)
    assert {name.split(".")[0] for name, _ in pooling.named_parameters()} == names


def test_the_published_codes_parameters_are_there_under_their_names() -> None:
    keys = set(adpool(variant="code").state_dict())
    assert keys == {"linear.weight", "linear.bias", "balance.weight", "balance.bias"}


@pytest.mark.parametrize("extra", [0, 3])
def test_padding_can_be_fixed_in_the_published_codes_result(extra: int) -> None:
    """Sets of up to five elements count as padded to five; the longer one as not padded."""
    pooling = adpool(variant="code", padded_to=5)
    lengths = [1, 4, 7, 2]
    features, counts = padded(lengths, extra, junk=5.0)
    for row, elements, length in zip(pooling(features, counts), features, lengths, strict=True):
        x = elements[:length].tolist()
        tokens = token_level_as_code(pooling.linear, x, max(0, 5 - length))
        expected = torch.tensor(balanced(pooling.balance, tokens, embedding_level(x)))
        torch.testing.assert_close(row, expected, rtol=2e-4, atol=1e-5)
    short, count = padded([2], 0)
    alone = pooling(short, count)
    assert torch.allclose(alone, pooling(nn.functional.pad(short, (0, 0, 0, 9)), count), atol=1e-6)


def test_what_depends_on_a_batch() -> None:
    assert adpool(variant="code").follows_batch
    for options in (
        {},
        {"variant": "code", "padded_to": 5},
        {"variant": "code", "token_weight": 0},
    ):
        assert not adpool(**options).follows_batch


@pytest.mark.parametrize("options", [{"padded_to": 5}, {"variant": "code", "padded_to": 0}])
def test_padding_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"padded_to is [05]; it must be at least 1, and is for"):
        adpool(**options)
