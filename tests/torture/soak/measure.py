"""Run a soak: a server, its clients, and what disturbs them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from eval.bench.query_latency.collections.impact_source import read_source
from eval.bench.query_latency.collections.queries import TermQuery, tokenise
from eval.bench.serving.access import Access
from eval.bench.serving.server_process import Server, serving
from indexer.manifest import Manifest
from sparta.errors import InputError
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer
from tests.torture.soak.clients import Clients
from tests.torture.soak.disturbances import Rebuilds, Snapshots, kill_workers
from tests.torture.soak.editions import Editions
from tests.torture.soak.judge import Checks, Judge
from tests.torture.soak.left import read_left
from tests.torture.soak.memory import Sample, sample
from tests.torture.soak.pauses import Over
from tests.torture.soak.plan import SoakPlan
from tests.torture.soak.results import Soaked
from tests.torture.soak.scrape import scrape
from tests.torture.soak.tally import Tally
from tests.torture.soak.writers import Writers
from tests.torture.soak.written import LiveJudge

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
    tokenizer = WordPieceTokenizer.from_folder(source)
    queries = tokenise(texts, tokenizer, QUERIES)
    progress("prepare", 0, 2)
    editions = Editions.of(read_source(source), queries, plan.images, plan.k)
    live = LiveJudge(queries, editions.right[0], plan.k) if plan.writers else None
    judge: Checks = live or Judge(editions)
    progress("prepare", 1, 2)
    with TemporaryDirectory() as folder:
        clients = plan.clients + plan.hanging_up
        access = Access.create(Path(folder) / "keys.json", clients, plan.writers)
        rebuilds = Rebuilds(source, Path(folder) / "index", plan, judge)
        rebuilds.build(0)
        progress("prepare", 2, 2)
        options = ["--workers", str(plan.workers), "--keys", str(access.file)]
        with serving(rebuilds.index, *options) as server:
            run = _Run(server, access, queries, plan, judge, Tally(plan.seconds), Over())
            if live:
                copies = Snapshots(rebuilds.index, tokenizer.vocabulary, plan, live)
                changes = run.writes(live, source, tokenizer, copies)
            else:
                changes = run.rebuilds(rebuilds)
            samples = asyncio.run(run.all(changes, progress))
            messages = server.messages()
        if live:
            ids = live.written.states
            left = read_left(rebuilds.index, ids, tokenizer.vocabulary)
            live.check_images("at the end", left, math.inf, math.inf)
    return Soaked(plan, run.tally, judge, samples, read_tracebacks(messages))


def read_tracebacks(messages: str) -> list[str]:
    """The last line of each traceback in the messages of a server: the error itself."""
    found = []
    for text in messages.split(TRACEBACK)[1:]:
        lines = text.splitlines()[1:]
        found.append(next((line for line in lines if not line.startswith(" ")), "cut off"))
    return found


@dataclass(frozen=True)
class _Run:
    """A server under load."""

    server: Server
    access: Access
    queries: Sequence[TermQuery]
    plan: SoakPlan
    judge: Checks
    tally: Tally
    over: Over

    def rebuilds(self, rebuilds: Rebuilds) -> list[Coroutine[Any, Any, None]]:
        """The index is replaced again and again."""
        return [rebuilds.repeat(self.tally, self.over)]

    def writes(
        self, judge: LiveJudge, source: Path, tokenizer: WordPieceTokenizer, copies: Snapshots
    ) -> list[Coroutine[Any, Any, None]]:
        """The index is written to by several clients, and copied meanwhile."""
        manifest = Manifest.open(source)
        writers = Writers(
            self.server.address,
            self.access.write,
            self.queries,
            tokenizer.vocabulary,
            manifest.scale,
            2**manifest.bits - 1,
            self.plan,
            judge.written,
            self.tally,
            self.over,
        )
        clients = [writers.write(number) for number in range(self.plan.writers)]
        return [*clients, copies.repeat(self.tally, self.over)]

    async def all(
        self, changes: Sequence[Coroutine[Any, Any, None]], progress: Progress
    ) -> list[Sample]:
        """Everything at once; an error of ours ends it."""
        plan, server, tally, over = self.plan, self.server, self.tally, self.over
        texts = [query.text for query in self.queries]
        clients = Clients(server.address, self.access.search, texts, plan, self.judge, tally, over)
        headers = {"Authorization": f"Bearer {self.access.metrics}"}
        monitor = httpx.AsyncClient(base_url=server.address, headers=headers)
        async with monitor, asyncio.TaskGroup() as group:
            for number in range(plan.clients):
                group.create_task(clients.search(number))
            for number in range(plan.clients, plan.clients + plan.hanging_up):
                group.create_task(clients.hang_up(number))
            group.create_task(scrape(monitor, plan.clients, tally, over))
            group.create_task(kill_workers(server.pid, plan, tally, over))
            for change in changes:
                group.create_task(change)
            samples = await _watch(server.pid, plan, tally, progress)
            over.set()
        return samples


async def _watch(server: int, plan: SoakPlan, tally: Tally, progress: Progress) -> list[Sample]:
    """Sample the memory until the time is up."""
    samples: list[Sample] = []
    total = int(plan.seconds)
    while (seconds := tally.elapsed) < plan.seconds:
        samples.append(await asyncio.to_thread(sample, server, seconds))
        progress("soak", int(seconds), total)
        await asyncio.sleep(min(plan.sampled_every, plan.seconds - seconds))
    progress("soak", total, total)
    return samples
