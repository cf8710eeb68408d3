"""Measures writing to an index, and its searches meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eval.bench.live.following import ENGINES, Followed, followed, time_searches
from eval.bench.live.made import make_index
from eval.bench.live.plan import TURNS, LivePlan
from eval.bench.live.results import LiveFigures, Times
from eval.bench.live.writing import WriterProcess, writer_process
from sparta.progress import Progress, no_progress

STEPS = 9


def measure_live(
    source: Path, work: Path, texts: Sequence[str], plan: LivePlan, progress: Progress = no_progress
) -> LiveFigures:
    """Write to an index and search it, step by step.

    One process writes, and this one searches with both engines in turn, which follow each commit.
    While images are added one by one, each engine follows alone, as in a server's process.

    Args:
        source: index of whose images the one that is measured is made.
        work: folder of the index; as built, it is kept for the next measurement.
        texts: queries.
        plan: what is done.
        progress: stages "write", in images, and "measure", in steps.

    Raises:
        InputError: if the folder is no index.
    """
    index = make_index(source, work, plan, progress)
    try:
        with writer_process(index, source, plan) as writer:
            measurement = _Measurement(index, texts, plan, progress, writer)
            with followed(index) as searchers:
                measurement.at_rest(searchers)
            measurement.add_singly()
            with followed(index) as searchers:
                return measurement.run(searchers)
    finally:
        shutil.rmtree(index)


class _Measurement:
    def __init__(
        self,
        index: Path,
        texts: Sequence[str],
        plan: LivePlan,
        progress: Progress,
        writer: WriterProcess,
    ) -> None:
        self._index, self._texts, self._plan = index, texts, plan
        self._progress, self._writer = progress, writer
        self._searchers: dict[str, Followed] = {}
        self._found, self._steps = LiveFigures(plan), 0

    def at_rest(self, searchers: dict[str, Followed]) -> None:
        """Search before anything is written."""
        self._searchers = searchers
        self._search("at rest")
        self._step()

    def run(self, searchers: dict[str, Followed]) -> LiveFigures:
        """All other steps, in their order."""
        self._searchers = searchers
        found, writer = self._found, self._writer
        times = [writer.do("described") for _ in range(self._plan.singles)]
        found.writes["metadata changed, acknowledged"] = Times.of(times)
        self._step()
        found.writes[f"added at {self._plan.rate}/s, acknowledged"] = self._write_in_turns()
        self._step()
        self._add_batches("in batches", writer.do("in_batches"))
        beside = self._search_during("during batches", "in_batches")
        self._add_batches("in batches beside searches", beside)
        self._step()
        found.seconds["columns compacted and merged"] = self._search_during(
            "during a merge", "settled"
        )
        self._step()
        self._search("before deletions")
        self._step()
        found.megabytes["before deletions"] = self._megabytes()
        found.seconds["a third deleted, committed"] = writer.do("deleted")
        found.megabytes["after deletions"] = self._megabytes()
        for one in self._searchers.values():
            one.wait_for(writer.do("committed"))
        self._search("after deletions of a third")
        self._step()
        found.seconds["columns compacted after deletions"] = writer.do("settled")
        self._step()
        return found

    def _write_in_turns(self) -> Times:
        """Search with and without steady writes in turn, since the machine's speed changes."""
        rest, beside = f"between {self._plan.rate} writes/s", f"at {self._plan.rate} writes/s"
        searches: dict[str, dict[str, list[float]]] = {
            name: {engine: [] for engine in ENGINES} for name in (rest, beside)
        }
        written: list[float] = []
        for _ in range(TURNS):
            _extend(searches[rest], self._timed(_after(self._plan.seconds / TURNS)))
            self._writer.begin("steadily")
            _extend(searches[beside], self._timed(lambda: self._writer.done))
            written += self._writer.result()
        for name, times in searches.items():
            self._found.add_searches(name, times, rest)
        return Times.of(written)

    def _add_batches(self, name: str, rates: tuple[float, float]) -> None:
        for until, rate in zip(("acknowledged", "committed"), rates, strict=True):
            self._found.rates[f"{name}, {until}"] = round(rate, 1)

    def _step(self) -> None:
        self._steps += 1
        self._progress("measure", self._steps, STEPS)

    def _search(self, name: str) -> None:
        """Search for the seconds of the plan."""
        self._found.add_searches(name, self._timed(_after(self._plan.seconds)))

    def _search_during(self, name: str, step: str) -> Any:
        """Search while a step is done; returns what it does."""
        self._writer.begin(step)
        self._found.add_searches(name, self._timed(lambda: self._writer.done))
        return self._writer.result()

    def _timed(self, over: Callable[[], bool]) -> dict[str, list[float]]:
        return time_searches(self._searchers, self._texts, self._plan.k, over)

    def add_singly(self) -> None:
        """Add images one by one, until each is acknowledged, and until an engine has it."""
        acknowledged: list[float] = []
        for engine in ENGINES:
            with followed(self._index, [engine]) as searchers:
                visible = []
                for _ in range(self._plan.singles):
                    start, seconds, version = self._writer.do("single")
                    acknowledged.append(seconds)
                    searchers[engine].wait_for(version)
                    visible.append(time.monotonic() - start)
            name = f"one added, committed and visible in {engine}"
            self._found.writes[name] = Times.of(visible)
        self._found.writes["one added, acknowledged"] = Times.of(acknowledged)
        self._step()

    def _megabytes(self) -> float:
        files = [path for path in self._index.rglob("*") if path.is_file()]
        return round(sum(path.stat().st_size for path in files) / 1e6, 1)


def _after(seconds: float) -> Callable[[], bool]:
    """Whether some seconds have passed."""
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _extend(times: dict[str, list[float]], more: dict[str, list[float]]) -> None:
    for engine, seconds in more.items():
        times[engine] += seconds
