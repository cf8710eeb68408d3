import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sparta.features.readers.parsing.tsv.regions import ENOUGH, looks_half

DRAWN = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "rectified": lambda rng, shape: rng.normal(-2, 1, shape).clip(0),
    "small": lambda rng, shape: rng.normal(scale=1e-3, size=shape),
    "unlike": lambda rng, shape: rng.normal(size=shape) * np.linspace(10, 0.01, shape[1]),
    "many sizes": lambda rng, shape: np.exp(rng.normal(-3, 1, shape)),
    "counts": lambda rng, shape: rng.integers(0, 200, shape),
}


def rounded_to_bfloat16(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


@given(seed=st.integers(0, 1000), regions=st.integers(2, 36), name=st.sampled_from(list(DRAWN)))
def test_the_type_shows_in_the_numbers(seed: int, regions: int, name: str) -> None:
    values = DRAWN[name](np.random.default_rng(seed), (regions, 512)).astype("<f4")
    halves = values.astype("<f2")
    assert looks_half(halves.tobytes())
    for singles in (values, halves.astype("<f4"), rounded_to_bfloat16(values)):
        assert not looks_half(singles.tobytes())


@pytest.mark.parametrize("values", [np.zeros(ENOUGH), np.ones(ENOUGH), np.linspace(0, 1, 9)])
def test_few_numbers_and_equal_ones_count_as_float32(
    values: NDArray[np.float64],
) -> None:
    assert not looks_half(values.astype("<f4").tobytes())
