import math

import pytest

from tests.sparta.vse.pooling.pools import Vector, assert_computes, columns, make, softmax


def test_mean() -> None:
    assert_computes(
        make("mean"), lambda x: [sum(c) / len(c) for c in columns(x)], lengths=(1, 4, 7, 2)
    )


def test_max() -> None:
    assert_computes(make("max"), lambda x: [max(c) for c in columns(x)], lengths=(1, 4, 7, 2))


@pytest.mark.parametrize("k", [1, 3, 5, 50])
def test_k_max(k: int) -> None:
    def reference(x: list[Vector]) -> Vector:
        largest = [sorted(c, reverse=True)[:k] for c in columns(x)]
        return [sum(c) / len(c) for c in largest]

    assert_computes(make("k-max", k=k), reference, lengths=(1, 4, 7, 2))


def test_the_first_element() -> None:
    assert_computes(make("cls"), lambda x: x[0], lengths=(1, 4, 7, 2))


def test_the_last_element() -> None:
    assert_computes(make("last"), lambda x: x[-1], lengths=(1, 4, 7, 2))


def test_soft_pooling() -> None:
    def reference(x: list[Vector]) -> Vector:
        return [sum(math.exp(v) * v for v in c) / sum(math.exp(v) for v in c) for c in columns(x)]

    assert_computes(make("softpool"), reference, lengths=(1, 4, 7, 2))
    assert softmax([0.0, 0.0]) == [0.5, 0.5]
