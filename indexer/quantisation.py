"""Quantisation: scores → integer impacts, and the error of that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class QuantisationReport:
    """The error of impact × scale against the scores; reports can be summed.

    Attributes:
        clipped: scores above the top level.
        total_error: sum of the absolute differences.
        largest_error: the largest of them.
    """

    clipped: int = 0
    total_error: float = 0.0
    largest_error: float = 0.0

    def __add__(self, other: QuantisationReport) -> QuantisationReport:
        return QuantisationReport(
            self.clipped + other.clipped,
            self.total_error + other.total_error,
            max(self.largest_error, other.largest_error),
        )


@dataclass(frozen=True)
class Quantiser:
    """Scores to integers: impact = score / scale, rounded, from 1 to the top level.

    Attributes:
        scale: the score that one level stands for.
        bits: of the top level, 2^bits - 1.
    """

    scale: float
    bits: int

    @classmethod
    def fit(cls, largest: float, bits: int) -> Quantiser:
        """Choose the scale so that the largest score gets the top level."""
        return cls((largest or 1.0) / (2**bits - 1), bits)

    def impacts(self, scores: NDArray[np.float32]) -> NDArray[np.int32]:
        """Positive scores → int32 impacts of the same shape; a kept term never falls to 0."""
        levels = np.rint(scores / self.scale)
        impacts: NDArray[np.int32] = np.clip(levels, 1, 2**self.bits - 1).astype(np.int32)
        return impacts

    def report(self, scores: NDArray[np.float32], impacts: NDArray[np.int32]) -> QuantisationReport:
        """The error of quantising these scores."""
        errors = np.abs(impacts * self.scale - scores.astype(np.float64))
        clipped = int((scores > (2**self.bits - 0.5) * self.scale).sum())
        return QuantisationReport(clipped, float(errors.sum()), float(errors.max(initial=0)))
