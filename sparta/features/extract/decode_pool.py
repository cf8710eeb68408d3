"""Decode photos in worker processes that may die without ending the run."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from sparta.features.extract.photos import Decoder, Photo
from sparta.features.skipped import Skipped

Decoded = list[Photo | Skipped]

MOST_WORKERS = 16


def default_workers() -> int:
    """As many as the cores that this process may use.

    Decoding a photo of 12 megapixels takes longer than the network does. Where the network takes
    longer, workers wait, since they are only a few batches ahead.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST_WORKERS, cores or 1)


def decode_all(decoder: Decoder, batches: Iterable[list[str]], workers: int) -> Generator[Decoded]:
    """Decode batches of image ids, in order, a few ahead of the reader.

    A photo whose decoding kills its process is skipped.

    Args:
        decoder: what every worker runs.
        batches: image ids.
        workers: number of processes; 0 decodes in this one.
    """
    if workers == 0:
        yield from map(decoder, batches)
        return
    pool = _pool(workers)
    waiting: deque[tuple[list[str], Future[Decoded]]] = deque()
    rest = iter(batches)
    try:
        while True:
            while len(waiting) <= 2 * workers and (batch := next(rest, None)) is not None:
                waiting.append((batch, _submit(pool, decoder, batch)))
            if not waiting:
                return
            batch, future = waiting.popleft()
            try:
                yield future.result()
            except BrokenProcessPool:
                pool.shutdown(cancel_futures=True)
                pool = _pool(workers)
                waiting = deque((ids, _submit(pool, decoder, ids)) for ids, _ in waiting)
                yield [_decode_alone(decoder, image_id) for image_id in batch]
    finally:
        pool.shutdown(cancel_futures=True)


def _submit(pool: ProcessPoolExecutor, decoder: Decoder, batch: list[str]) -> Future[Decoded]:
    """Start a batch; a pool that is already broken raises when the result is requested."""
    try:
        return pool.submit(decoder, batch)
    except BrokenProcessPool as error:
        failed: Future[Decoded] = Future()
        failed.set_exception(error)
        return failed


def _decode_alone(decoder: Decoder, image_id: str) -> Photo | Skipped:
    with _pool(1) as pool:
        try:
            return pool.submit(decoder.decode, image_id).result()
        except BrokenProcessPool:
            return Skipped(image_id, "decoding it killed the worker process")


def _pool(workers: int) -> ProcessPoolExecutor:
    # Forked workers need no importable __main__; they only run Pillow and numpy, which is safe
    # beside the threads of the parent.
    method = "fork" if sys.platform == "linux" else "spawn"
    return ProcessPoolExecutor(workers, multiprocessing.get_context(method), _start_worker)


def _start_worker() -> None:
    """Leave Ctrl-C to the parent, and end with it even if it is killed."""
    # What the parent left to the garbage collector may need threads that are not here.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
