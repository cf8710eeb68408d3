"""The figures of a measurement of filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
from rich.table import Table

from eval.bench.filters.plan import FilterPlan


@dataclass(frozen=True)
class Searched:
    """Searches under one filter, and the same ones without, in milliseconds.

    Attributes:
        kind: of collection.
        chosen: how the images were that the filter lets through.
        share: of the images.
        plain_ms: mean without the filter.
        mean_ms, p50_ms, p99_ms: with it.
        first_ms: the first search with it.
    """

    kind: str
    chosen: str
    share: float
    plain_ms: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    first_ms: float

    @classmethod
    def of(
        cls,
        name: tuple[str, str, float],
        plain: Sequence[float],
        filtered: Sequence[float],
        first: float,
    ) -> Self:
        """From seconds."""
        p50, p99 = np.percentile(filtered, [50, 99])
        figures = (np.mean(plain), np.mean(filtered), p50, p99, first)
        return cls(*name, *(round(1000 * float(one), 4) for one in figures))

    @property
    def ratio(self) -> float:
        """How many times as long a search takes as without the filter, by the means."""
        return self.mean_ms / self.plain_ms


@dataclass(frozen=True)
class FirstUse:
    """A filter that is used for the first time.

    Attributes:
        text: the filter.
        images: that it lets through.
        opened_ms: with its fields opened by it.
        other_ms: another filter of its kind after it.
    """

    text: str
    images: int
    opened_ms: float
    other_ms: float


@dataclass
class FilterFigures:
    """What was measured.

    Attributes:
        plan: of the measurement.
        searched: under each filter.
        first_uses: of filters by their text.
    """

    plan: FilterPlan
    searched: list[Searched] = field(default_factory=list)
    first_uses: list[FirstUse] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values, with the ratios to searches without a filter."""
        searched = [asdict(one) | {"ratio": round(one.ratio, 3)} for one in self.searched]
        return asdict(self) | {"searched": searched}

    def table(self) -> Table:
        """All figures, a row each."""
        table = Table(
            "images", "let through", "no filter, ms", "mean ms", "ratio", "p99 ms", "first ms"
        )
        for one in self.searched:
            times = (f"{ms:.3f}" for ms in (one.plain_ms, one.mean_ms, one.ratio, one.p99_ms))
            name = f"{100 * one.share:g} % {one.chosen}"
            table.add_row(one.kind, name, *times, f"{one.first_ms:.2f}")
        table.add_section()
        for use in self.first_uses:
            row = f"{use.opened_ms:.1f}", f"{use.images:,} images", f"then {use.other_ms:.1f}"
            table.add_row(use.text, "first use, ms", "", row[0], "", row[2], row[1])
        return table
