"""What one core can read from memory and add up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

STREAM_BYTES = 512 * 2**20  # many times a processor's caches
IN_CACHE = 4096  # impacts, which stay in the first-level cache
TURNS = 20_000
TRIES = 5

compiled = njit(nogil=True, error_model="numpy")


def bytes_per_second() -> float:
    """Bytes of memory that one core reads a second, one after the other (the best of some tries).

    As the sum of STREAM (McCalpin 1995), without its writes, since a search hardly writes.
    """
    memory = np.ones(STREAM_BYTES // 8, np.uint64)
    return STREAM_BYTES / _best(lambda: _sum(memory))


def adds_per_second() -> float:
    """Impacts of 8 bits that one core adds to sums of 16 a second, all in its cache."""
    sums, impacts = np.zeros(IN_CACHE, np.uint16), np.ones(IN_CACHE, np.uint8)
    return IN_CACHE * TURNS / _best(lambda: _add(sums, impacts, TURNS))


def _best(task: Callable[[], Any]) -> float:
    """Seconds of the fastest try; the first one compiles."""
    task()
    seconds = []
    for _ in range(TRIES):
        start = time.perf_counter()
        task()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


@compiled
def _sum(memory: NDArray[np.uint64]) -> int:
    total = np.uint64(0)
    for value in memory:
        total += value
    return int(total)


@compiled
def _add(sums: NDArray[np.uint16], impacts: NDArray[np.uint8], turns: int) -> None:
    for turn in range(turns):
        count = np.uint16(turn & 1)  # so that no turn can be left out
        for place in range(len(sums)):
            sums[place] += count * impacts[place]
