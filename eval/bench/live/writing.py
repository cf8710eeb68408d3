"""The process that writes, told step by step what to write."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread
from typing import Any

from eval.bench.live.made import new_images
from eval.bench.live.plan import TURNS, LivePlan
from eval.bench.query_latency.collections.impact_source import read_source
from eval.bench.serving.enlarged_index import image_id
from indexer.live.changes import Add, Change, Delete, MetadataChange
from indexer.update.sharded import Writer
from indexer.update.writer import open_writer

COMMIT_EVERY = 1.0  # seconds, as a server does


class Writing:
    """The steps, in the process that writes; times are of the clock `time.monotonic`.

    Args:
        writer: of the index.
        source: index that new images are made of.
        plan: of the measurement.
    """

    def __init__(self, writer: Writer, source: Path, plan: LivePlan) -> None:
        self._writer, self._plan = writer, plan
        self._images = new_images(read_source(source), plan)

    def _acknowledged(self, changes: list[Change]) -> float:
        """Seconds until changes are acknowledged."""
        start = time.monotonic()
        self._writer.sync(self._writer.write(changes))
        return time.monotonic() - start

    def single(self) -> tuple[float, float, int]:
        """Add an image; when that began, seconds until it was acknowledged, and its commit."""
        change, start = Add(next(self._images)), time.monotonic()
        seconds = self._acknowledged([change])
        return start, seconds, self._writer.commit().version

    def described(self) -> float:
        """Replace the metadata of an image; seconds until that is acknowledged."""
        place = random.Random(time.monotonic()).randrange(self._plan.images)
        return self._acknowledged([MetadataChange(image_id(place), {"rating": 5})])

    def steadily(self) -> list[float]:
        """Add images at a constant rate for one turn, commit every second; seconds of each."""
        number = max(1, round(self._plan.rate * self._plan.seconds / TURNS))
        changes = [Add(image) for image in islice(self._images, number)]
        over = Event()
        commits = Thread(target=self._commit_every_second, args=(over,))
        commits.start()
        start, found = time.monotonic(), []
        for place, change in enumerate(changes):
            time.sleep(max(0, start + place / self._plan.rate - time.monotonic()))
            found.append(self._acknowledged([change]))
        over.set()
        commits.join()
        return found

    def _commit_every_second(self, over: Event) -> None:
        while not over.wait(COMMIT_EVERY):
            self._writer.commit()

    def in_batches(self) -> tuple[float, float]:
        """Add many images in batches; images a second until acknowledged, and until committed."""
        plan = self._plan
        changes: list[Change] = [Add(image) for image in islice(self._images, plan.batched)]
        over = Event()
        commits = Thread(target=self._commit_every_second, args=(over,))
        commits.start()
        start = time.monotonic()
        for place in range(0, len(changes), plan.batch):
            self._acknowledged(changes[place : place + plan.batch])
        acknowledged = time.monotonic() - start
        over.set()
        commits.join()
        self._writer.commit()
        return len(changes) / acknowledged, len(changes) / (time.monotonic() - start)

    def settled(self) -> float:
        """Seconds until the columns are compacted and merged as far as is due."""
        start = time.monotonic()
        self._writer.commit()
        self._writer.settle()
        self._writer.commit()
        return time.monotonic() - start

    def deleted(self) -> float:
        """Delete a third of the images as built; seconds until that is committed."""
        plan = self._plan
        chosen = random.Random(plan.seed).sample(range(plan.images), plan.images // 3)
        start = time.monotonic()
        for place in range(0, len(chosen), plan.batch):
            self._acknowledged(
                [Delete(image_id(one)) for one in chosen[place : place + plan.batch]]
            )
        self._writer.commit()
        return time.monotonic() - start

    def committed(self) -> int:
        """The newest commit."""
        return self._writer.commit().version


class WriterProcess:
    """Steps that another process does.

    Args:
        there: the connection to it.
    """

    def __init__(self, there: Connection) -> None:
        self._there = there

    def begin(self, step: str) -> None:
        """Let it begin a step of `Writing`."""
        self._there.send(step)

    @property
    def done(self) -> bool:
        """Whether the step is done."""
        return self._there.poll()

    def result(self) -> Any:
        """Wait for what the step returns."""
        return self._there.recv()

    def do(self, step: str) -> Any:
        """Do a step and wait for it."""
        self.begin(step)
        return self.result()


@contextmanager
def writer_process(index: Path, source: Path, plan: LivePlan) -> Iterator[WriterProcess]:
    """A process that writes to an index until the end of the `with` block."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(there, index, source, plan))
    process.start()
    there.close()
    try:
        here.recv()  # the index is open
        yield WriterProcess(here)
    finally:
        here.close()
        process.join()


def _serve(there: Connection, index: Path, source: Path, plan: LivePlan) -> None:
    with open_writer(index) as writer:
        writing = Writing(writer, source, plan)
        there.send(None)
        while True:
            try:
                step = there.recv()
            except EOFError:
                return
            there.send(getattr(writing, step)())
