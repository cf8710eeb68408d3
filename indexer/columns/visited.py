"""A cap on the superblocks that a search visits, for a bounded time at the price of hits."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

# Superblocks of the highest bounds, which a search scores first, and which no cap leaves out.
LEADERS = 32


def check_visited(visited: float) -> None:
    """Refuse what is no share of the superblocks.

    Raises:
        InputError: if it is not above 0 and at most 1.
    """
    if not 0 < visited <= 1:
        raise InputError(f"--visited must be above 0 and at most 1, got {visited:g}")


def most_visited(superblocks: Iterable[int], visited: float) -> NDArray[np.int64]:
    """[segments] the most superblocks that a search visits of each; empty for all of them.

    Args:
        superblocks: how many each segment has.
        visited: share of them, above 0; 1 for all.
    """
    if visited == 1:
        return np.empty(0, np.int64)
    return np.array([max(LEADERS, ceil(visited * size)) for size in superblocks], np.int64)
