"""The figures of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table


@dataclass(frozen=True)
class Times:
    """Milliseconds of a query, and bytes of the columns.

    Attributes:
        mean_ms: of all queries.
        p99_ms: their 99th percentile.
        bytes_per_posting: of all arrays.
    """

    mean_ms: float
    p99_ms: float
    bytes_per_posting: float

    @classmethod
    def of(cls, seconds: NDArray[np.float64], bytes_per_posting: float) -> Times:
        """Of the seconds [queries] of each query."""
        return cls(
            1000 * float(seconds.mean()),
            1000 * float(np.percentile(seconds, 99)),
            bytes_per_posting,
        )


@dataclass(frozen=True)
class Case:
    """A trial and what ships, in turns.

    Attributes:
        trial: its name.
        about: what is tried.
        kind: of collection.
        k: hits.
        shipped, tried: the figures of both.
    """

    trial: str
    about: str
    kind: str
    k: int
    shipped: Times
    tried: Times

    @property
    def mean_ratio(self) -> float:
        """Of the means, the trial's by that of what ships."""
        return self.tried.mean_ms / self.shipped.mean_ms

    @property
    def p99_ratio(self) -> float:
        """Of the 99th percentiles."""
        return self.tried.p99_ms / self.shipped.p99_ms

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"mean_ratio": self.mean_ratio, "p99_ratio": self.p99_ratio}


@dataclass(frozen=True)
class Trials:
    """All cases.

    Attributes:
        images: of each collection.
        top_n: terms an image keeps, None for all.
        cases: measured, trial by trial within a collection.
    """

    images: int
    top_n: int | None
    cases: Sequence[Case]

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return asdict(self) | {"cases": [case.record() for case in self.cases]}

    def table(self) -> Table:
        """A row for each trial, with the ratios of every collection and k."""
        places = list(dict.fromkeys((case.kind, case.k) for case in self.cases))
        table = Table(
            "trial",
            *(f"{kind}, {k}" for kind, k in places),
            "bytes a posting",
            title=f"{self.images:,} images, {self.top_n or 'all'} terms; time by that of what "
            "ships: means (99th percentiles)",
        )
        for trial in dict.fromkeys(case.trial for case in self.cases):
            own = {(case.kind, case.k): case for case in self.cases if case.trial == trial}
            ratios = [f"{own[at].mean_ratio:.2f} ({own[at].p99_ratio:.2f})" for at in places]
            sizes = (case.tried.bytes_per_posting for case in own.values())
            table.add_row(trial, *ratios, ", ".join(dict.fromkeys(f"{size:.2f}" for size in sizes)))
        return table
