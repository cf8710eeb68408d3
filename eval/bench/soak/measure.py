"""Run a soak: a server, its clients, and what disturbs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from eval.bench.query_latency.collections.impact_source import read_source
from eval.bench.query_latency.collections.queries import tokenise
from eval.bench.serving.access import Access
from eval.bench.serving.server_process import serving
from eval.bench.soak.clients import Clients
from eval.bench.soak.disturbances import Rebuilds, kill_workers
from eval.bench.soak.editions import Editions
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
        access = Access.create(Path(folder) / "keys.json", plan.clients + plan.hanging_up)
        rebuilds = Rebuilds(source, Path(folder) / "index", plan, judge)
        rebuilds.build(0)
        progress("prepare", 2, 2)
        options = ["--workers", str(plan.workers), "--keys", str(access.file)]
        with serving(rebuilds.index, *options) as server:
            tally, over, samples = Tally(plan.seconds), Over(), list[Sample]()
            sent = [query.text for query in queries]
            clients = Clients(server.address, access.search, sent, plan, judge, tally, over)
            run = _all(server.pid, access.metrics, clients, rebuilds, samples, progress)
            asyncio.run(run)
            messages = server.messages()
    return Soaked(plan, tally, judge, samples, messages.count(TRACEBACK))


async def _all(
    server: int,
    key: str,
    clients: Clients,
    rebuilds: Rebuilds,
    samples: list[Sample],
    progress: Progress,
) -> None:
    """Everything at once; an error of ours ends it."""
    plan, tally, over = clients.plan, clients.tally, clients.over
    headers = {"Authorization": f"Bearer {key}"}  # to the metrics
    monitor = httpx.AsyncClient(base_url=clients.address, headers=headers)
    async with monitor, asyncio.TaskGroup() as group:
        for number in range(plan.clients):
            group.create_task(clients.search(number))
        for number in range(plan.clients, plan.clients + plan.hanging_up):
            group.create_task(clients.hang_up(number))
        group.create_task(scrape(monitor, plan.clients, tally, over))
        group.create_task(kill_workers(server, plan, tally, over))
        group.create_task(rebuilds.repeat(tally, over))
        await _watch(server, plan, tally, samples, progress)
        over.set()


async def _watch(
    server: int, plan: SoakPlan, tally: Tally, samples: list[Sample], progress: Progress
) -> None:
    """Sample the memory until the time is up."""
    total = int(plan.seconds)
    while (seconds := tally.elapsed) < plan.seconds:
        samples.append(await asyncio.to_thread(sample, server, seconds))
        progress("soak", int(seconds), total)
        await asyncio.sleep(min(plan.sampled_every, plan.seconds - seconds))
    progress("soak", total, total)
