"""The figures of a roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from eval.bench.roofline.work import Work


@dataclass(frozen=True)
class Case:
    """Searches of one collection; figures are means of a query.

    Attributes:
        kind: of collection.
        k: hits.
        work: of a query.
        mean_ms: measured.
        memory_ms: of reading the bytes at the speed of memory.
        adds_ms: of the adds at the speed of the core.
    """

    kind: str
    k: int
    work: Work
    mean_ms: float
    memory_ms: float
    adds_ms: float

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        times = {name: getattr(self, name) for name in ("mean_ms", "memory_ms", "adds_ms")}
        floor = {"floor_ms": self.floor_ms, "times_floor": self.times_floor}
        return {"kind": self.kind, "k": self.k, **self.work._asdict(), **times, **floor}

    @property
    def floor_ms(self) -> float:
        """The larger of both: no search that does this work is faster."""
        return max(self.memory_ms, self.adds_ms)

    @property
    def times_floor(self) -> float:
        """How many times as long as that a search takes."""
        return self.mean_ms / self.floor_ms


@dataclass(frozen=True)
class Roofline:
    """All cases, and the machine.

    Attributes:
        images: of each collection.
        top_n: terms an image keeps, None for all.
        gigabytes_per_second: that one core reads from memory.
        gigaadds_per_second: that one core adds in its cache.
        cases: measured.
    """

    images: int
    top_n: int | None
    gigabytes_per_second: float
    gigaadds_per_second: float
    cases: Sequence[Case]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"cases": [one.record() for one in self.cases]}

    def table(self) -> Table:
        """The figures as a table."""
        table = Table(
            "collection, k",
            *(
                "superblocks",
                "images",
                "MB",
                "M adds",
                "memory ms",
                "adds ms",
                "search ms",
                "times",
            ),
            title=f"{self.images:,} images, {self.top_n or 'all'} terms; one core reads "
            f"{self.gigabytes_per_second:.1f} GB/s and adds {self.gigaadds_per_second:.1f} G/s",
        )
        for one in self.cases:
            table.add_row(
                f"{one.kind}, {one.k}",
                *(f"{one.work.superblocks:.1%}", f"{one.work.images:.3%}"),
                *(f"{one.work.bytes / 1e6:.2f}", f"{one.work.adds / 1e6:.2f}"),
                *(f"{one.memory_ms:.3f}", f"{one.adds_ms:.3f}"),
                *(f"{one.mean_ms:.3f}", f"{one.times_floor:.1f}"),
            )
        return table
