"""Searches that take longer than a millisecond: in threads of their own, limited, cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Event
from time import perf_counter
from typing import Any

from fastapi import Request, Response

from server.changeover.leases import Lease, lease_of
from server.monitoring.metrics import MS, Metrics
from server.monitoring.record import RequestRecord, record_of
from server.problems import ProblemError

THREADS = 8
WAITING = 56  # searches that may wait for a thread; more are refused at once
CLIENT_GONE = 499  # never sent: there is nobody to send it to


class ClientGoneError(Exception):
    """Raised by work whose client has hung up."""


class Wanted:
    """Tells work whether its client still waits for it."""

    def __init__(self) -> None:
        self._gone = Event()

    def withdraw(self) -> None:
        """The client has gone."""
        self._gone.set()

    def check(self) -> None:
        """Do nothing while the client waits.

        Raises:
            ClientGoneError: if it has gone.
        """
        if self._gone.is_set():
            raise ClientGoneError


class Work:
    """Runs searches in threads that nothing else uses, so that photos never wait for them.

    Args:
        metrics: of the process.
        threads: searches at once.
        waiting: searches that wait for a thread at most.
    """

    def __init__(self, metrics: Metrics, threads: int = THREADS, waiting: int = WAITING) -> None:
        self._metrics = metrics
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, "search")
        self._places = threads + waiting
        self._taken = 0

    async def run(self, request: Request, task: Callable[[Wanted], Response]) -> Response:
        """Run a task in a thread, as long as the client waits for it.

        Raises:
            ProblemError: if too many tasks are running and waiting already.
        """
        if self._taken >= self._places:
            self._metrics.refused.inc()
            detail = "too many searches are running; try again in a second"
            raise ProblemError("overloaded", detail)
        wanted = Wanted()
        record = record_of(request.scope)
        timed = partial(_timed, record, perf_counter(), task, wanted)
        future = self._start(timed, lease_of(request.scope))
        answer = asyncio.wrap_future(future)
        hung_up = asyncio.ensure_future(_hung_up(request))
        try:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(list[asyncio.Future[Any]]([answer, hung_up]), return_when=first)
            return answer.result() if answer.done() else Response(status_code=CLIENT_GONE)
        finally:
            hung_up.cancel()
            if not answer.done():
                wanted.withdraw()
                answer.cancel()  # and with it a task that has not begun

    def _start(self, task: Callable[[], Response], lease: Lease[Any] | None) -> Future[Response]:
        loop = asyncio.get_running_loop()
        self._count(1)
        if lease is not None:
            lease.take()
        future = self._pool.submit(task)
        # A task that runs keeps its place and its index until its thread is free, even if its
        # client has gone.
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._free, lease))
        return future

    def _free(self, lease: Lease[Any] | None) -> None:
        self._count(-1)
        if lease is not None:
            lease.give_back()

    def _count(self, change: int) -> None:
        self._taken += change
        running = min(self._taken, self._threads)
        self._metrics.work(running, self._taken - running)

    def close(self) -> None:
        """Wait for the tasks that run; those that wait are dropped."""
        self._pool.shutdown(cancel_futures=True)


def _timed(
    record: RequestRecord, start: float, task: Callable[[Wanted], Response], wanted: Wanted
) -> Response:
    record.stages["queue"] = (perf_counter() - start) * MS
    return task(wanted)


async def _hung_up(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
