"""What is counted during a soak."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

WINDOWS = 12  # of the load, each with its own percentiles


@dataclass
class Tally:
    """Counts of a soak, and the time of every answer.

    Attributes:
        seconds: of load that are planned.
        start: of the load, by `perf_counter`.
        times: [WINDOWS] milliseconds of the answers that arrived in each, retries included.
        attempts: status or error → how many attempts ended so.
        failures: what is wrong → requests that no retry healed.
        hung_up: requests whose client hung up.
        killed: workers, and writers.
        written: images that were written.
        snapshots: that were taken and read.
        scraped: times that the metrics were read.
    """

    seconds: float
    start: float = field(default_factory=perf_counter)
    times: list[array[float]] = field(default_factory=lambda: [array("f") for _ in range(WINDOWS)])
    attempts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    hung_up: int = 0
    killed: int = 0
    written: int = 0
    snapshots: int = 0
    scraped: int = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self.start

    @property
    def answers(self) -> int:
        """How many arrived."""
        return sum(map(len, self.times))

    def answered(self, seconds: float) -> None:
        """Count an answer.

        Args:
            seconds: from the first attempt to the answer.
        """
        self.times[self._window(self.elapsed)].append(1000 * seconds)

    def _window(self, elapsed: float) -> int:
        return min(int(WINDOWS * elapsed / self.seconds), WINDOWS - 1)

    def windows(self) -> list[dict[str, Any]]:
        """Answers and percentiles of each window; no percentiles without answers."""
        width = self.seconds / WINDOWS
        return [
            {"from_s": round(number * width, 3), **percentiles(np.array(times))}
            for number, times in enumerate(self.times)
        ]

    def overall(self) -> dict[str, Any]:
        """Answers and percentiles of the whole load."""
        return percentiles(np.concatenate([np.array(times) for times in self.times]))


def percentiles(times: NDArray[np.floating]) -> dict[str, Any]:
    """The number of answers and their percentiles in milliseconds, None without answers."""
    shares = {"p50_ms": 50, "p99_ms": 99, "longest_ms": 100}
    return {
        "answers": len(times),
        **{
            name: round(float(np.percentile(times, share)), 2) if len(times) else None
            for name, share in shares.items()
        },
    }
