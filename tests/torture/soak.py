"""A server under load whose processes are killed: every answer is judged, and memory is watched.

Clients search, write and hang up. Workers and the process that writes are killed by SIGKILL again
and again. Meanwhile snapshots of the index are taken or, if nobody writes, the server reloads
another index. `soak_judge` says what may be found.
"""

import asyncio
import math
import os
import random
import re
import signal
from collections import Counter
from collections.abc import Coroutine, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import numpy as np

from indexer.maintenance.copies import set_alias
from indexer.state import index_version
from server.client.client import AsyncClient
from server.client.transport import ClientError
from sparta.errors import InputError
from tests.indexer.random_postings import random_postings, shards_of, write_postings
from tests.indexer.vocabulary import COMMON, small_tokenizer
from tests.server.apps import make_key
from tests.server.served import served, workers_of
from tests.torture.kills import Report
from tests.torture.soak_judge import PREFIX, Impacts, Judge, read_images, read_snapshot

SEARCHING, WRITING, HANGING_UP = 4, 4, 2  # clients
WORKERS = 2
IMAGES = 1000  # of an index, beside those that clients write
WRITTEN = 25  # images of each client that writes
K = 10  # hits of an answer
SEARCHED_EVERY, WRITTEN_EVERY = 0.05, 0.3  # mean seconds between an answer and the next request
KILLED_EVERY = 8.0  # seconds: a worker that is killed before it is ready is replaced after five
CHANGED_EVERY = 20.0  # seconds between two snapshots, or two reloads
RELOADED_WITHIN = 60.0  # seconds, on a busy machine
SAMPLED_EVERY = 5.0  # seconds between two samples of memory and metrics
AFTER_FAILURE = 1.0  # seconds
MOST_GROWTH = 100.0  # MB of the oldest worker; an hour of load has added 11 to 13

WORDS = ("dog", "cat", "beach", "ball", "red", "sky", "run", "é", COMMON)
QUERIES = [f"{one} {other} {one}" for one in WORDS for other in WORDS]  # weights of 1, 2 and 3
SCALE = 0.5  # of the indexes: a term score of 1 is an impact of 2
SEARCHES = re.compile(r"^visualsparta_search_duration_seconds_count(?:\{[^}]*\})? (\S+)$", re.M)
TRACEBACK = "Traceback (most recent call last)"


def soak(minutes: float, seed: int, work: Path, report: Report, writes: bool) -> dict[str, Any]:
    """Put a server under load and disturb it; returns what happened, and what should not have.

    Requests that no retry healed are counted. They are not wrong where processes die so often.
    """
    judge = Judge(QUERIES, K)
    indexes = [work / "first", work / "second"]
    for number, index in enumerate(indexes):
        images = random_postings(small_tokenizer(), IMAGES, seed=2 * seed + number)
        write_postings(index, shards_of(images, 1000), small_tokenizer())
        judge.serves(images, index_version(index))
    alias, keys = work / "index", work / "keys.json"
    set_alias(alias, indexes[0])
    run = _Run(60 * minutes, seed, keys, make_key(keys, "metrics"), judge, report)
    options = ("--workers", str(WORKERS), "--keys", str(keys))
    with TemporaryFile() as output:
        with served(alias, *options, output=output) as (address, pid):
            changes = [run.snapshots(alias)] if writes else [run.reloads(alias, indexes)]
            changes += [run.write(address, number) for number in range(WRITING if writes else 0)]
            asyncio.run(run.all(address, pid, changes))
        output.seek(0)
        for error in tracebacks(output.read().decode(errors="replace")):
            judge.note(f"the server printed: {error}")
    left = read_images(indexes[0], judge.written.states)
    judge.check_images("at the end", left, math.inf, math.inf)
    return {"minutes": minutes, "seed": seed, **run.result()}


soak_writes = partial(soak, writes=True)
soak_reloads = partial(soak, writes=False)


class Over(asyncio.Event):
    """Set when the soak is over; everything that repeats waits for it."""

    async def within(self, seconds: float) -> bool:
        """Wait that long at most; whether the soak is over."""
        try:
            await asyncio.wait_for(self.wait(), seconds)
        except TimeoutError:
            return False
        return True


@dataclass(frozen=True)
class _Run:
    """What happens to a server during a soak; each coroutine repeats something until it is over."""

    seconds: float
    seed: int
    keys: Path
    metrics_key: str
    judge: Judge
    report: Report
    over: Over = field(default_factory=Over)
    times: list[float] = field(default_factory=list)  # ms of answers, with attempts that failed
    attempts: Counter[str] = field(default_factory=Counter)  # by status or error
    failures: Counter[str] = field(default_factory=Counter)  # that no retry healed, by error
    counts: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[float, float]] = field(default_factory=list)  # samples of `memory_of`

    async def all(
        self, address: str, server: int, changes: Sequence[Coroutine[Any, Any, None]]
    ) -> None:
        """Run everything at once until the time is up; an error of the soak itself ends it."""
        async with asyncio.TaskGroup() as group:
            for task in (
                *(self.search(address, number) for number in range(SEARCHING)),
                *(self.hang_up(address, number) for number in range(HANGING_UP)),
                *changes,
                self.scrape(address),
                self.kill(server),
                self.watch(server),
            ):
                group.create_task(task)
            await asyncio.sleep(self.seconds)
            self.over.set()

    def result(self) -> dict[str, Any]:
        """The figures as JSON values."""
        wrong, grown = self.judge.described(), growth(self.memory)
        if grown["oldest worker, private"] > MOST_GROWTH:
            wrong.append(f"the oldest worker grew by {grown['oldest worker, private']} MB")
        shares = {"p50": 50, "p99": 99, "longest": 100}
        return {
            "happened": {
                "answers checked": len(self.times),
                "written images among the hits": self.judge.written_hits,
                **self.counts,
                "requests that no retry healed": self.failures.total(),
            },
            "attempts": dict(self.attempts.most_common()),
            "failures": dict(self.failures.most_common(10)),
            "ms": {
                name: round(float(np.percentile(self.times or [0.0], share)))
                for name, share in shares.items()
            },
            "MB grown": grown,
            "wrong": wrong,
        }

    # ---- clients ---------------------------------------------------------------------------------

    async def search(self, address: str, number: int) -> None:
        """Search one query after the other, and have every answer judged."""
        draw = random.Random(f"{self.seed} searching {number}")
        key, transport = make_key(self.keys), _Counting(self.attempts)
        async with AsyncClient(address, api_key=key, transport=transport) as client:
            while not await self.over.within(draw.expovariate(1 / SEARCHED_EVERY)):
                query, start = draw.choice(QUERIES), perf_counter()
                try:
                    answer = await client.search(query, K, explain=draw.random() < 0.1)
                except ClientError as error:
                    await self.failed(str(error))
                    continue
                end = perf_counter()
                self.times.append(1000 * (end - start))
                self.judge.check(query, answer, start, end)

    async def failed(self, error: str) -> None:
        """Count a request that no retry healed, and wait."""
        self.failures[error] += 1
        await self.over.within(AFTER_FAILURE)

    async def hang_up(self, address: str, number: int) -> None:
        """Send requests, half of them in part, and close the connection without an answer."""
        draw = random.Random(f"{self.seed} hanging up {number}")
        server, key = urlsplit(address), make_key(self.keys)
        while not await self.over.within(0.2):
            query = urlencode({"q": draw.choice(QUERIES), "k": 100, "explain": "true"})
            request = (
                f"GET /v1/search?{query} HTTP/1.1\r\nHost: {server.netloc}\r\n"
                f"Authorization: Bearer {key}\r\n\r\n"
            ).encode()
            sent = draw.choice([len(request), draw.randrange(len(request))])
            with suppress(OSError):  # the worker was killed
                _, writer = await asyncio.open_connection(server.hostname, server.port)
                writer.write(request[:sent])
                await self.over.within(draw.uniform(0, 0.1))
                writer.transport.abort()
                self.counts["clients that hung up"] += 1

    async def write(self, address: str, number: int) -> None:
        """Change one image after the other; what is acknowledged may not be lost."""
        draw = random.Random(f"{self.seed} writing {number}")
        ids = [f"{PREFIX}{number}/{one}" for one in range(WRITTEN)]
        async with AsyncClient(address, api_key=make_key(self.keys, "write")) as client:
            while not await self.over.within(draw.expovariate(1 / WRITTEN_EVERY)):
                try:
                    await self._change(client, draw, ids)
                except ClientError as error:
                    await self.failed(f"write: {error}")

    async def _change(self, client: AsyncClient, draw: random.Random, ids: list[str]) -> None:
        """Add, replace or delete an image, write a batch, or change metadata."""
        kind = draw.choices(("put", "delete", "batch", "describe"), (6, 2, 1, 1))[0]
        some = draw.sample(ids, 5 if kind == "batch" else 1)
        if kind == "describe":
            await _describe(client, some[0], draw.randrange(1000))
            return
        changes: dict[str, Impacts | None] = {
            image_id: None if kind == "delete" else self.judge.draw(draw) for image_id in some
        }
        for image_id, impacts in changes.items():
            self.judge.written.sent(image_id, impacts)
        refresh: Any = draw.choices(("wait", "none"), (7, 3))[0]
        weights = {image_id: _weights(impacts) for image_id, impacts in changes.items()}
        if kind == "put":
            await client.put_image(some[0], terms=weights[some[0]], refresh=refresh)
        elif kind == "delete":  # not by its path: a deletion of nothing would wait for no commit
            await client.delete_images(some, refresh=refresh)
        else:
            lines = [{"image_id": image_id, "terms": own} for image_id, own in weights.items()]
            answer = await client.write_batch(lines, refresh=refresh)
            self.failures.update(f"batch: {error.detail}" for error in answer.errors)
        self.counts["images written"] += len(changes)
        if refresh == "wait":
            for image_id in changes:
                self.judge.written.found(image_id)

    async def scrape(self, address: str) -> None:
        """Read the metrics as Prometheus does, and once when the soak is over.

        The number of searches may not fall, nor be less than that of the answers. A search is
        counted when its answer has been sent, so a killed worker loses at most one of each client.
        """
        before, ended = 0.0, False
        headers = {"Authorization": f"Bearer {self.metrics_key}"}
        async with httpx.AsyncClient(base_url=address, headers=headers) as client:
            while not ended:
                ended = await self.over.within(SAMPLED_EVERY)
                least = max(before, len(self.times) - SEARCHING * (self.counts["kills"] + 1))
                try:
                    response = await client.get("/metrics")
                except httpx.TransportError:  # the worker was killed
                    continue
                before = sum(map(float, SEARCHES.findall(response.text)))
                if response.status_code != HTTPStatus.OK or before < least:
                    found = f"status {response.status_code}, {before:.0f} searches"
                    self.judge.note(f"/metrics: {found} of at least {least:.0f}")
                self.counts["metrics read"] += 1

    # ---- disturbances, and the memory ------------------------------------------------------------

    async def kill(self, server: int) -> None:
        """Kill a worker, or the process that writes, while another worker serves.

        The oldest worker lives through the soak, so that its memory shows whether it grows.
        """
        draw = random.Random(self.seed)
        while not await self.over.within(KILLED_EVERY):
            if others := workers_of(server)[1:]:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(draw.choice(others), signal.SIGKILL)
                    self.counts["kills"] += 1

    async def snapshots(self, index: Path) -> None:
        """Take a snapshot, and check what it holds."""
        while not await self.over.within(CHANGED_EVERY):
            ids = list(self.judge.written.states)
            try:
                problems, found, start, end = await asyncio.to_thread(_apart, index, ids)
            except InputError as error:
                self.judge.note(f"snapshot: {error}")
                continue
            self.counts["snapshots"] += 1
            for problem in problems:
                self.judge.note(f"snapshot: {problem}")
            self.judge.check_images("in a snapshot", found, start, end)

    async def reloads(self, alias: Path, indexes: Sequence[Path]) -> None:
        """Let the alias lead to another index; soon all workers must answer from that one alone."""
        while not self.over.is_set():
            index = indexes[self.counts["reloads"] % 2]
            set_alias(alias, index)
            self.counts["reloads"] += 1
            end, before = perf_counter() + RELOADED_WITHIN, self.judge.answers.copy()
            while not await self.over.within(CHANGED_EVERY / 2):
                found = set(self.judge.answers - before)
                before = self.judge.answers.copy()
                if found == {index_version(index)}:
                    break
                if perf_counter() > end:
                    self.judge.note(f"{found} are served instead of {index_version(index)}")
                    break

    async def watch(self, server: int) -> None:
        """Sample the memory, and report each minute."""
        start, shown = perf_counter(), 0.0
        while True:
            self.memory.append(await asyncio.to_thread(memory_of, server))
            if await self.over.within(SAMPLED_EVERY):
                return
            if (seconds := perf_counter() - start) > shown:
                shown += 60
                done = f"{len(self.times)} answers, {self.judge.wrong_count} wrong"
                self.report(f"{seconds:.0f} of {self.seconds:.0f} s: {done}")


async def _describe(client: AsyncClient, image_id: str, number: int) -> None:
    """Change metadata, if the index has the image."""
    try:
        await client.update_image(image_id, {"n": number})
    except ClientError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise


def _weights(impacts: Impacts | None) -> dict[str, float]:
    vocabulary = small_tokenizer().vocabulary
    return {vocabulary[term]: impact * SCALE for term, impact in (impacts or {}).items()}


def _apart(index: Path, ids: Sequence[str]) -> Any:
    """Take and read a snapshot in a process of its own, as `sparta snapshot` does."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(read_snapshot, index, ids).result()


class _Counting(httpx.AsyncHTTPTransport):
    """Counts how attempts end."""

    def __init__(self, attempts: Counter[str]) -> None:
        super().__init__()
        self._attempts = attempts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one attempt."""
        try:
            response = await super().handle_async_request(request)
        except httpx.TransportError as error:
            self._attempts[type(error).__name__] += 1
            raise
        self._attempts[str(response.status_code)] += 1
        return response


def tracebacks(messages: str) -> list[str]:
    """The last line of each traceback in the messages of a server: the error itself."""
    found = []
    for text in messages.split(TRACEBACK)[1:]:
        lines = text.splitlines()[1:]
        found.append(next((line for line in lines if not line.startswith(" ")), "cut off"))
    return found


def memory_of(server: int) -> tuple[float, float]:
    """Memory in MB: of all workers, mapped files included, and of the oldest for itself.

    A page that n processes share counts as an nth in each (Linux' proportional set size).
    """
    workers = workers_of(server)
    oldest = sum(_size(one, "Anonymous") for one in workers[:1])
    return sum(_size(one, "Pss") for one in workers), oldest


def _size(process: int, kind: str) -> float:
    """Memory of a process in MB, 0 if it has ended."""
    try:
        sums = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    found = re.search(rf"^{kind}:\s+(\d+) kB", sums, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def growth(samples: Sequence[tuple[float, float]]) -> dict[str, float]:
    """How many MB the memory has grown: the last fifth of the samples less the second fifth.

    Caches fill and code is compiled in the first fifth.
    """
    fifth = max(1, len(samples) // 5)
    early, late = samples[fifth : 2 * fifth] or samples, samples[-fifth:]
    return {
        name: round(fmean(one[column] for one in late) - fmean(one[column] for one in early), 1)
        for column, name in enumerate(("all workers", "oldest worker, private"))
    }
