"""Writes an index of many images part by part, each in a process of its own, and merges them.

Making a document's text is Python's work and indexing it Java's, into which pyjnius lets one thread
at a time: in one process, all of it would be the work of one core.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from types import TracebackType

from indexer.lucene.document import check_vocabulary
from indexer.lucene.jvm import start
from indexer.lucene.segment_writer import merge_segments, write_segment
from indexer.postings import Postings
from sparta.progress import Progress, no_progress

PART_POSTINGS = 2_000_000  # a second of work; 20 MB here for each part, and again in its process
MOST_WORKERS = 4


class LuceneWriter:
    """Adds images to a new index; leaving the `with` block merges and commits.

    An index of one part is written in this process. A script that writes more must be importable,
    `if __name__ == "__main__"` around what it does, as everywhere where Python starts processes.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order.
        images: how many will be added in all, for progress.
        progress: stages "write" and "merge", in images.

    Raises:
        InputError: if a term cannot be written as Lucene's tokenizer would read it back.
        FileExistsError: if the folder exists.
        ChildProcessError: while adding, if a process was killed.
    """

    def __init__(
        self,
        folder: Path,
        vocabulary: Sequence[str],
        images: int,
        progress: Progress = no_progress,
    ) -> None:
        check_vocabulary(vocabulary)
        if folder.exists():
            raise FileExistsError(folder)
        self._folder, self._vocabulary = folder, list(vocabulary)
        self._images, self._progress = images, progress
        self._last = ""
        self._waiting: list[Postings] = []
        self._parts: list[Path] = []
        self._pool: ProcessPoolExecutor | None = None
        self._running: deque[tuple[int, Future[None]]] = deque()
        self._written = 0

    def add(self, shard: Postings) -> None:
        """Add some images; waits while enough parts are being written.

        Raises:
            ValueError: if an id does not come after the one before.
        """
        for image_id in shard.ids:
            if image_id <= self._last:
                raise ValueError(f"image {image_id!r} comes after {self._last!r}: not rising")
            self._last = image_id
        if sum(len(waiting.terms) for waiting in self._waiting) >= PART_POSTINGS:
            self._submit()
        self._waiting.append(shard)

    def _submit(self) -> None:
        """Hand the waiting images to a process, which begins once one is free."""
        workers = _workers()
        if self._pool is None:
            self._pool = ProcessPoolExecutor(workers, get_context("spawn"), _start_worker)
        while len(self._running) > workers:
            self._collect()
        part = self._folder.with_name(f"{self._folder.name}.parts") / f"{len(self._parts):05d}"
        self._parts.append(part)
        images = sum(map(len, self._waiting))
        with _explain_dead_processes():
            work = self._pool.submit(write_segment, part, self._vocabulary, self._waiting)
        self._running.append((images, work))
        self._waiting = []

    def _collect(self) -> None:
        images, work = self._running.popleft()
        with _explain_dead_processes():
            work.result()
        self._written += images
        self._progress("write", self._written, self._images)

    def __enter__(self) -> LuceneWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            if self._pool is not None:
                self._pool.shutdown(cancel_futures=True)

    def _finish(self) -> None:
        if self._pool is None:
            write_segment(self._folder, self._vocabulary, self._waiting)
            self._progress("write", sum(map(len, self._waiting)), self._images)
            return
        self._submit()
        while self._running:
            self._collect()
        self._pool.shutdown()  # its memory is free before the merge begins
        self._merge()
        shutil.rmtree(self._parts[0].parent)

    def _merge(self) -> None:
        """Merge in a thread, watching how much of the parts' size the index has reached."""
        start()  # Java belongs to the thread that starts it, and this one stays
        whole = sum(map(_size, self._parts))
        with ThreadPoolExecutor(1) as runner:
            merging = runner.submit(merge_segments, self._parts, self._folder)
            while not wait([merging], timeout=0.5).done:
                share = min(1.0, _size(self._folder) / whole)
                self._progress("merge", int(share * self._written), self._images)
        merging.result()
        self._progress("merge", self._written, self._images)


@contextmanager
def _explain_dead_processes() -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a process that wrote a part of the Lucene index was killed, perhaps for lack of "
            "memory; finished shards are saved: start again"
        ) from error


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*"))


def _workers() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST_WORKERS, cores or 1)


def _start_worker() -> None:
    """Ignore Ctrl-C, which the parent handles, and end when the parent ends or is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
