"""Memory of a server over time, and whether it grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from scipy.stats import linregress
from scipy.stats import t as student

from eval.bench.peak_memory import family, private_size, proportional_size
from tests.torture.soak.workers import workers_of

MEGABYTE = 2**20
SETTLING = 0.2  # share of the load during which memory may grow: caches fill, code is compiled
BLOCKS = 40  # means of successive samples, so that errors are less dependent on one another
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Sample:
    """Memory at one moment, in MiB.

    Attributes:
        seconds: since the start of the load.
        all_mb: proportional set sizes of all processes together, mapped files included.
        oldest_mb: private memory of the worker that has lived longest.
    """

    seconds: float
    all_mb: float
    oldest_mb: float


@dataclass(frozen=True)
class Slope:
    """Growth of memory in MiB an hour, with its confidence interval."""

    per_hour: float
    low: float
    high: float


def sample(server: int, seconds: float) -> Sample:
    """Measure a server.

    Args:
        server: its first process.
        seconds: since the start of the load.
    """
    oldest = workers_of(server)[:1]
    return Sample(
        round(seconds, 1),
        round(sum(map(proportional_size, family(server))) / MEGABYTE, 1),
        round(sum(map(private_size, oldest)) / MEGABYTE, 1),
    )


def slope(times: Sequence[float], sizes: Sequence[float], planned: float) -> Slope | None:
    """The slope of a straight line through memory after it has settled.

    Samples follow one another closely and are not independent, so means of blocks are fitted; the
    interval is Student's for ordinary least squares.

    Args:
        times: seconds of the samples.
        sizes: in MiB.
        planned: seconds of load.

    Returns:
        None for fewer than three blocks.
    """
    first = SETTLING * planned
    width = max((planned - first) / BLOCKS, 1e-9)
    settled = [(at, size) for at, size in zip(times, sizes, strict=True) if at >= first]
    blocks = [list(block) for _, block in groupby(settled, lambda one: int(one[0] // width))]
    if len(blocks) < 3:
        return None
    hours = [fmean(at for at, _ in block) / 3600 for block in blocks]
    fit = linregress(hours, [fmean(size for _, size in block) for block in blocks])
    error = 0.0 if math.isnan(fit.stderr) else float(fit.stderr)  # nan where all sizes are equal
    margin = float(student.ppf((1 + CONFIDENCE) / 2, len(blocks) - 2)) * error
    return Slope(*(round(float(x), 2) for x in (fit.slope, fit.slope - margin, fit.slope + margin)))
