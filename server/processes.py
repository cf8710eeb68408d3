"""Serving with one or several processes on one listening socket, each with its own searchers.

Python uses one core at a time, and Java answers one search at a time here, so a second core needs
a second process. The processes share the memory-mapped files of an index.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import wait

import uvicorn
from fastapi import FastAPI

from server.app import create_app
from server.backends import Backends
from sparta.errors import InputError


def run(app: FastAPI, listening: socket.socket) -> None:
    """Serve on a listening socket until the process is interrupted."""
    config = uvicorn.Config(app, loop="asyncio", log_level="warning", access_log=False)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def run_workers(
    count: int, open_backends: Callable[[], Backends], listening: socket.socket
) -> None:
    """Serve in several processes until this one is interrupted, or one of them ends by itself.

    Args:
        count: number of processes.
        open_backends: opens the backends; called in each process and must be picklable.
        listening: socket shared by all.

    Raises:
        InputError: if a process ends by itself; the others are then stopped.
    """
    context = get_context("spawn")
    workers = [
        context.Process(target=_work, args=(open_backends, listening), daemon=True)
        for _ in range(count)
    ]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        for worker in workers:
            worker.start()
        wait([worker.sentinel for worker in workers])
        raise InputError(
            "a worker process ended unexpectedly, the others were stopped; see the messages above"
        )
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _work(open_backends: Callable[[], Backends], listening: socket.socket) -> None:
    """Serve in a worker process; Ctrl+C is handled by the first process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        app = create_app(open_backends())
    except InputError as error:
        sys.exit(f"error: {error}")
    run(app, _SingleAccept(fileno=listening.detach()))


class _SingleAccept(socket.socket):
    """A listening socket that accepts one connection per event.

    An event loop accepts all waiting connections at once: one process would take a whole burst of
    connections while the others are idle.
    """

    _accepted = True

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection and, at every second call, report that none is waiting."""
        self._accepted = not self._accepted
        if self._accepted:
            raise BlockingIOError
        return super().accept()
