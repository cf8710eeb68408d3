"""Whether bytes are floats of two bytes or of four, where a format does not record it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ENOUGH = 512  # numbers, below which chance decides


def looks_half(payload: bytes) -> bool:
    """Whether little-endian floats that are to be float32 are float16 instead.

    Among a float32's lower halves, read as float16, some are infinite or no numbers, unless the
    numbers were rounded; and a float16 read as half of a float32 has eight times its exponent. So
    the numbers are of the type in which all are finite and their exponents differ less.

    Args:
        payload: an even number of float16, or float32.
    """
    halves, singles = np.frombuffer(payload, "<f2"), np.frombuffer(payload, "<f4")
    # The lower halves of numbers rounded to bfloat16, and of small integers, are 0.
    if len(halves) < ENOUGH or not np.isfinite(halves).all() or not halves[::2].any():
        return False
    return 2 * _exponents_deviation(halves) < _exponents_deviation(singles)


def _exponents_deviation(values: NDArray[np.floating[Any]]) -> float:
    """Standard deviation of the exponents of those that are neither 0 nor infinite."""
    _, exponents = np.frexp(values[np.isfinite(values) & (values != 0)])
    return float(exponents.std()) if len(exponents) else 0.0
