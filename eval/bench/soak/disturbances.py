"""What happens to a server during a soak: workers die, the index is rebuilt."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from eval.bench.soak.editions import EDITIONS, start_rebuild
from eval.bench.soak.pauses import Over
from eval.bench.soak.plan import SoakPlan
from eval.bench.soak.tally import Tally
from eval.bench.soak.workers import workers_of


async def kill_workers(server: int, plan: SoakPlan, tally: Tally, over: Over) -> None:
    """Kill the worker that started last, again and again, while another one serves.

    The oldest lives through the whole soak, so that its memory shows whether it grows.
    """
    while not await over.within(plan.killed_every):
        workers = workers_of(server)
        if len(workers) > 1:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(workers[-1], signal.SIGKILL)
                tally.killed += 1


async def rebuild_index(
    source: Path, index: Path, plan: SoakPlan, tally: Tally, over: Over
) -> None:
    """Replace the index by the next edition, again and again.

    Args:
        source: index whose images the editions are made of.
        index: that is served.
        plan: of the soak.
        tally: to count in.
        over: set at the end; a rebuild that has begun is finished.
    """
    edition = 0
    while not await over.within(plan.rebuilt_every):
        edition = (edition + 1) % EDITIONS
        start = perf_counter()
        process = start_rebuild(source, index, plan.images, edition)
        await asyncio.to_thread(process.join)
        if process.exitcode:
            tally.failures[f"a rebuild ended with exit code {process.exitcode}"] += 1
        else:
            tally.rebuilt.append(round(perf_counter() - start, 1))
