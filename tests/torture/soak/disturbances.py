"""What happens to a server during a soak: workers die, the index is rebuilt or copied."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

from indexer.care.snapshots import take_snapshot
from indexer.state import index_version
from indexer.verify import verify_index
from sparta.errors import InputError
from tests.torture.soak.editions import EDITIONS, rebuild
from tests.torture.soak.judge import Checks, Version
from tests.torture.soak.left import read_left
from tests.torture.soak.pauses import Over
from tests.torture.soak.plan import SoakPlan
from tests.torture.soak.tally import Tally
from tests.torture.soak.workers import workers_of
from tests.torture.soak.written import Impacts, LiveJudge


async def kill_workers(server: int, plan: SoakPlan, tally: Tally, over: Over) -> None:
    """Kill a worker, or the process that writes, again and again, while another worker serves.

    The oldest lives through the whole soak, so that its memory shows whether it grows.
    """
    draw = random.Random(plan.seed)
    while not await over.within(plan.killed_every):
        workers = workers_of(server)
        if len(workers) > 1:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(draw.choice(workers[1:]), signal.SIGKILL)
                tally.killed += 1


@dataclass(frozen=True)
class Rebuilds:
    """Replaces the served index by one edition after the other.

    Attributes:
        source: index whose images the editions are made of.
        index: that is served.
        plan: of the soak.
        judge: is told the version of every rebuilt index.
    """

    source: Path
    index: Path
    plan: SoakPlan
    judge: Checks

    async def repeat(self, tally: Tally, over: Over) -> None:
        """Rebuild until the soak is over; a rebuild that has begun is finished."""
        edition = 0
        while not await over.within(self.plan.rebuilt_every):
            edition = (edition + 1) % EDITIONS
            try:
                await asyncio.to_thread(self.build, edition)
            except InputError as error:
                tally.failures[str(error)] += 1

    def build(self, edition: int) -> None:
        """Rebuild in a process of its own, as `sparta index` does.

        Raises:
            InputError: if the process fails.
        """
        start = perf_counter()
        arguments = (self.source, self.index, self.plan.images, edition)
        process = get_context("spawn").Process(target=rebuild, args=arguments)
        process.start()
        process.join()
        if process.exitcode:
            raise InputError(f"a rebuild ended with exit code {process.exitcode}")
        ready = perf_counter()
        self.judge.register(index_version(self.index), Version(edition, ready - start, ready))


@dataclass(frozen=True)
class Snapshots:
    """Takes snapshots of an index that is written to, and checks what they hold.

    Attributes:
        index: that is served.
        vocabulary: [V] terms in id order.
        plan: of the soak.
        judge: knows which states of each image a snapshot may have.
    """

    index: Path
    vocabulary: Sequence[str]
    plan: SoakPlan
    judge: LiveJudge

    async def repeat(self, tally: Tally, over: Over) -> None:
        """One snapshot after the other, until the soak is over."""
        while not await over.within(self.plan.copied_every):
            ids = list(self.judge.written.states)
            try:
                problems, found, start, end = await asyncio.to_thread(self._take, ids)
            except InputError as error:
                tally.failures[f"snapshot: {error}"] += 1
                continue
            tally.snapshots += 1
            tally.failures.update(f"snapshot: {problem}" for problem in problems)
            self.judge.check_images("in a snapshot", found, start, end)

    def _take(self, ids: list[str]) -> _Snapshot:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            return process.submit(_copy_and_read, self.index, ids, self.vocabulary).result()


# What `sparta verify` finds, each image with its impacts, and when copying began and ended.
_Snapshot = tuple[list[str], list[tuple[str, Impacts | None]], float, float]


def _copy_and_read(index: Path, ids: Sequence[str], vocabulary: Sequence[str]) -> _Snapshot:
    """Take a snapshot, read it and remove it; `perf_counter` is one clock for all processes."""
    out = index.with_name("snapshot")
    start = perf_counter()
    take_snapshot(index, out)
    end = perf_counter()
    try:
        return verify_index(out), list(read_left(out, ids, vocabulary)), start, end
    finally:
        shutil.rmtree(out)
