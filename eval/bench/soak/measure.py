"""Run a soak: a server, its clients, and what disturbs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from eval.bench.query_latency.collections.impact_source import read_source
from eval.bench.query_latency.collections.queries import tokenise
from eval.bench.serving.server_process import Server, serving
from eval.bench.soak.clients import hang_up, search
from eval.bench.soak.disturbances import kill_workers, rebuild_index
from eval.bench.soak.editions import Editions, rebuild
from eval.bench.soak.judge import Judge
from eval.bench.soak.memory import Sample, sample
from eval.bench.soak.pauses import Over
from eval.bench.soak.plan import SoakPlan
from eval.bench.soak.results import Soaked
from eval.bench.soak.scrape import scrape
from eval.bench.soak.tally import Tally
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer

QUERIES = 500
TRACEBACK = "Traceback (most recent call last)"


def soak(
    source: Path, texts: Sequence[str], plan: SoakPlan, progress: Progress = no_progress
) -> Soaked:
    """Put a server under load and disturb it, for as long as planned.

    Args:
        source: index whose images the served editions are made of.
        texts: queries; 500 of them are sent in random order.
        plan: of the soak.
        progress: of the stages "prepare", in steps, and "soak", in seconds.

    Raises:
        InputError: if the system has no /proc, or the server does not start.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        raise InputError("a soak reads the memory of processes from /proc: run it on Linux")
    queries = tokenise(texts, WordPieceTokenizer.from_folder(source), QUERIES)
    progress("prepare", 0, 2)
    judge = Judge(Editions.of(read_source(source), queries, plan.images, plan.k))
    progress("prepare", 1, 2)
    with TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        rebuild(source, index, plan.images, edition=0)
        progress("prepare", 2, 2)
        with serving(index, "--workers", str(plan.workers)) as server:
            run = _Run(server, plan, judge, Tally(plan.seconds), [])
            asyncio.run(run.all(source, index, [query.text for query in queries], progress))
            messages = server.messages()
    return Soaked(plan, run.tally, judge, run.samples, messages.count(TRACEBACK))


class _Run:
    """One soak while it runs."""

    def __init__(
        self, server: Server, plan: SoakPlan, judge: Judge, tally: Tally, samples: list[Sample]
    ) -> None:
        self.server, self.plan, self.judge = server, plan, judge
        self.tally, self.samples = tally, samples

    async def all(self, source: Path, index: Path, texts: list[str], progress: Progress) -> None:
        """Everything at once; an error of ours ends it."""
        plan, tally, address, over = self.plan, self.tally, self.server.address, Over()
        monitor = httpx.AsyncClient(base_url=address)
        async with monitor, asyncio.TaskGroup() as group:
            for number in range(plan.clients):
                group.create_task(search(address, texts, plan, self.judge, tally, over, number))
            for number in range(plan.hanging_up):
                group.create_task(hang_up(address, texts, plan, tally, over, number))
            group.create_task(scrape(monitor, plan.clients, tally, over))
            group.create_task(kill_workers(self.server.pid, plan, tally, over))
            group.create_task(rebuild_index(source, index, plan, tally, over))
            await self._watch(progress)
            over.set()

    async def _watch(self, progress: Progress) -> None:
        """Sample the memory until the time is up."""
        total = int(self.plan.seconds)
        while self.tally.elapsed < self.plan.seconds:
            seconds = self.tally.elapsed
            self.samples.append(await asyncio.to_thread(sample, self.server.pid, seconds))
            progress("soak", min(int(seconds), total), total)
            await asyncio.sleep(min(self.plan.sampled_every, self.plan.seconds - seconds))
        progress("soak", total, total)
