"""The figures of capped searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table


@dataclass(frozen=True)
class Case:
    """Searches of one collection that visit a share of its superblocks.

    Attributes:
        kind: of collection.
        share: of the superblocks; 1 for all.
        mean_ms, p50_ms, p99_ms, max_ms: of a search; the 99th percentile is that of the queries.
        recall: mean share of the exact k best that are found; of equal scores any counts.
    """

    kind: str
    share: float
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    recall: float

    @classmethod
    def of(cls, kind: str, share: float, seconds: NDArray[np.float64], recall: float) -> Case:
        """The figures of some searches, whose seconds [queries] were measured."""
        times = 1000 * seconds
        p50, p99 = np.percentile(times, (50, 99)).tolist()
        return cls(kind, share, float(times.mean()), p50, p99, float(times.max()), recall)


@dataclass(frozen=True)
class VisitedShares:
    """All cases.

    Attributes:
        images: of each collection.
        top_n: terms an image keeps, None for all.
        k: hits.
        queries: how many were searched.
        cases: measured.
    """

    images: int
    top_n: int | None
    k: int
    queries: int
    cases: Sequence[Case]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self)

    def table(self) -> Table:
        """The figures as a table."""
        table = Table(
            *("collection", "visited", "mean ms", "p50 ms", "p99 ms", "max ms"),
            f"recall@{self.k}",
            title=f"{self.images:,} images, {self.top_n or 'all'} terms, {self.queries:,} queries",
        )
        for one in self.cases:
            times = (one.mean_ms, one.p50_ms, one.p99_ms, one.max_ms)
            shown = (f"{time:.3f}" for time in times)
            table.add_row(one.kind, f"{one.share:g}", *shown, f"{one.recall:.4f}")
        return table
