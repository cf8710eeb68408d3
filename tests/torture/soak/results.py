"""The result of a soak: JSON values and a table."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from tests.torture.soak.judge import Checks
from tests.torture.soak.memory import Sample, Slope, slope
from tests.torture.soak.plan import SoakPlan
from tests.torture.soak.tally import WINDOWS, Tally


@dataclass(frozen=True)
class Soaked:
    """What happened during a soak.

    Attributes:
        plan: of the soak.
        tally: counts and times.
        judge: of the answers.
        samples: of the memory.
        tracebacks: errors of the tracebacks in the server's messages.
    """

    plan: SoakPlan
    tally: Tally
    judge: Checks
    samples: Sequence[Sample]
    tracebacks: Sequence[str]

    @property
    def failed(self) -> int:
        """Wrong answers, failures of requests and rebuilds, unserved rebuilds, tracebacks."""
        judge = self.judge
        wrong = judge.wrong_count + judge.misplaced + judge.unserved
        return wrong + self.tally.failures.total() + len(self.tracebacks)

    def slopes(self) -> dict[str, Slope | None]:
        """Growth of the memory; see `memory.slope`."""
        times = [one.seconds for one in self.samples]
        sizes = {
            "all processes": [one.all_mb for one in self.samples],
            "oldest worker, private": [one.oldest_mb for one in self.samples],
        }
        return {name: slope(times, own, self.plan.seconds) for name, own in sizes.items()}

    def windows(self) -> list[dict[str, Any]]:
        """Answers, percentiles and mean memory of each window."""
        times = [one.seconds for one in self.samples]
        windows = self.tally.windows()
        for number, window in enumerate(windows):
            ends = (self.plan.seconds * edge / WINDOWS for edge in (number, number + 1))
            own = self.samples[slice(*(bisect_left(times, end) for end in ends))]
            window["memory_mb"] = round(fmean(one.all_mb for one in own), 1) if own else None
        return windows

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        tally, judge = self.tally, self.judge
        return {
            "plan": asdict(self.plan),
            "overall": tally.overall(),
            "wrong": {"answers": judge.wrong_count, "first": judge.wrong},
            "of_another_version": judge.misplaced,
            "unserved_rebuilds": judge.unserved,
            "failures": dict(tally.failures.most_common()),
            "attempts": dict(tally.attempts.most_common()),
            "tracebacks": dict(Counter(self.tracebacks)),
            "killed_workers": tally.killed,
            "versions": judge.versions(),
            "written_images": tally.written,
            "snapshots": tally.snapshots,
            "hung_up": tally.hung_up,
            "metrics_read": tally.scraped,
            "memory_mb_per_hour": {
                name: None if found is None else asdict(found)
                for name, found in self.slopes().items()
            },
            "windows": self.windows(),
            "samples": [list(vars(one).values()) for one in self.samples],
        }

    def table(self) -> Table:
        """The figures as a table."""
        tally, healed = self.tally, self.tally.attempts.total() - self.tally.attempts["200"]
        slopes = [
            f"{name}: "
            + (
                f"{one.per_hour:+} MB/h ({one.low} to {one.high})"
                if one
                else "too short for a slope"
            )
            for name, one in self.slopes().items()
        ]
        lines = [
            f"wrong answers {self.judge.wrong_count}, of another version {self.judge.misplaced}",
            f"failures {tally.failures.total()}, unserved rebuilds {self.judge.unserved}",
            f"attempts that a retry healed {healed}, tracebacks {len(self.tracebacks)}",
            f"killed processes {tally.killed}, versions {len(self.judge.versions())}, "
            f"clients that hung up {tally.hung_up}, images written {tally.written}, "
            f"snapshots {tally.snapshots}",
            *slopes,
        ]
        table = Table(
            title=f"{self.plan.images:,} images, {self.plan.clients} clients; times in ms",
            caption="\n".join(lines),
            caption_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        for column in ("from s", "answers", "p50", "p99", "longest", "memory MB"):
            table.add_column(column, justify="right")
        for window in [*self.windows(), {"from_s": "all", **tally.overall(), "memory_mb": None}]:
            table.add_row(*("" if value is None else str(value) for value in window.values()))
        return table
