"""The figures of a measurement of a live index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from eval.bench.live.plan import LivePlan


@dataclass(frozen=True)
class Times:
    """Milliseconds of something done often.

    Attributes:
        count: how often.
        p50: median.
        p99: 99 of 100 took no longer.
    """

    count: int
    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Times:
        """The milliseconds of some durations in seconds."""
        p50, p99 = np.percentile(seconds, [50, 99])
        return cls(len(seconds), round(1000 * float(p50), 3), round(1000 * float(p99), 3))


@dataclass
class LiveFigures:
    """What was measured.

    Attributes:
        plan: of the measurement.
        writes: times of writes by name, until acknowledged or visible.
        searches: times of searches by what went on, then by engine.
        rests: the searches with nothing beside them that others are compared with, by name.
        rates: images a second by name.
        seconds: of what was done once, by name.
        megabytes: of the index folder, by moment.
    """

    plan: LivePlan
    writes: dict[str, Times] = field(default_factory=dict)
    searches: dict[str, dict[str, Times]] = field(default_factory=dict)
    rests: dict[str, str] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    megabytes: dict[str, float] = field(default_factory=dict)

    def add_searches(
        self, name: str, seconds: dict[str, list[float]], rest: str = "at rest"
    ) -> None:
        """Record searches, and with which others they are compared."""
        self.searches[name] = {engine: Times.of(times) for engine, times in seconds.items()}
        self.rests[name] = rest

    def ratio(self, name: str, engine: str, share: str = "p50") -> float:
        """How many times as long searches took as those with nothing beside them."""
        mine, rest = self.searches[name][engine], self.searches[self.rests[name]][engine]
        return float(getattr(mine, share) / getattr(rest, share))

    def record(self) -> dict[str, Any]:
        """The figures as JSON values, with the ratios to searches at rest."""
        ratios = {
            name: {
                engine: {
                    share: round(self.ratio(name, engine, share), 3) for share in ("p50", "p99")
                }
                for engine in engines
            }
            for name, engines in self.searches.items()
        }
        return {**asdict(self), "ratios": ratios}

    def table(self) -> Table:
        """All figures, a row each."""
        table = Table("what", "engine", "p50 ms", "p99 ms", "p50 to rest", "p99 to rest")
        for name, times in self.writes.items():
            table.add_row(name, "", f"{times.p50:.2f}", f"{times.p99:.2f}")
        for name, engines in self.searches.items():
            for engine, times in engines.items():
                ratios = (f"{self.ratio(name, engine, share):.2f}" for share in ("p50", "p99"))
                row = f"{times.p50:.3f}", f"{times.p99:.3f}", *ratios
                table.add_row(f"search {name}", engine, *row)
        table.add_section()
        for unit, values in (
            ("images/s", self.rates),
            ("s", self.seconds),
            ("MB", self.megabytes),
        ):
            for name, value in values.items():
                table.add_row(name, "", f"{value:,.1f} {unit}")
        return table
