import math
from typing import Literal

import pytest

from training.module import learning_rate_factor


def test_rate_rises_then_stays_or_falls() -> None:
    for step in range(100):
        rise = (step + 1) / 20
        done = (step - 20) / 80
        after = {"constant": 1.0, "linear": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2}
        for schedule, value in after.items():
            expected = rise if step < 20 else value
            found = learning_rate_factor(step, 100, 0.2, schedule)  # type: ignore[arg-type]
            assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_rate_ends_at_zero_and_starts_above(schedule: Literal["linear", "cosine"]) -> None:
    assert learning_rate_factor(0, 10, 0.0, schedule) == 1
    assert learning_rate_factor(9, 10, 0.0, schedule) > 0
    assert learning_rate_factor(10, 10, 0.0, schedule) == pytest.approx(0, abs=1e-6)
