"""The figures of a roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table


@dataclass(frozen=True)
class Case:
    """Searches of one collection; all but shares and times are means of a query.

    Attributes:
        kind: of collection.
        k: hits.
        bound_bytes, list_bytes, dense_bytes, adds, superblocks, blocks: see `Work`.
        mean_ms: measured.
        memory_ms: of reading the bytes at the speed of memory.
        adds_ms: of the adds at the speed of the core.
    """

    kind: str
    k: int
    bound_bytes: float
    list_bytes: float
    dense_bytes: float
    adds: float
    superblocks: float
    blocks: float
    mean_ms: float
    memory_ms: float
    adds_ms: float

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
        cases = [
            asdict(one) | {"floor_ms": one.floor_ms, "times_floor": one.times_floor}
            for one in self.cases
        ]
        return asdict(self) | {"cases": cases}

    def table(self) -> Table:
        """The figures as a table."""
        table = Table(
            "collection, k",
            *(
                "superblocks",
                "blocks",
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
            megabytes = (one.bound_bytes + one.list_bytes + one.dense_bytes) / 1e6
            table.add_row(
                f"{one.kind}, {one.k}",
                *(f"{one.superblocks:.1%}", f"{one.blocks:.1%}"),
                *(f"{megabytes:.2f}", f"{one.adds / 1e6:.2f}"),
                *(f"{one.memory_ms:.3f}", f"{one.adds_ms:.3f}"),
                *(f"{one.mean_ms:.3f}", f"{one.times_floor:.1f}"),
            )
        return table
