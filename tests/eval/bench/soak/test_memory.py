"""The slope of memory, and memory of a process."""

import os
import random

import pytest

from eval.bench.soak.memory import Slope, sample, slope
from tests.eval.bench.soak.needs import needs_proc


def test_a_line_is_found_within_its_interval() -> None:
    draw = random.Random(0)
    times = [5.0 * number for number in range(720)]
    sizes = [900 + 36 * at / 3600 + draw.gauss(0, 5) for at in times]
    found = slope(times, sizes, 3600)
    assert found is not None
    assert found.low < 36 < found.high
    assert found.high - found.low < 10


def test_memory_while_it_settles_does_not_count() -> None:
    times = [float(at) for at in range(100)]
    sizes = [500.0 if at < 20 else 700.0 + at for at in times]
    assert slope(times, sizes, 100) == Slope(3600, 3600, 3600)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_samples(count: int) -> None:
    assert slope([50.0 + 10 * at for at in range(count)], [1.0] * count, 100) is None


@needs_proc
def test_a_process_without_workers() -> None:
    found = sample(os.getpid(), 1.25)
    assert (found.seconds, found.oldest_mb) == (1.2, 0)
    assert found.all_mb > 10
