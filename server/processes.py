"""Processes that answer side by side on one listening socket, each with its own searchers.

Python runs in one core at a time, and Java here answers one search at a time: a second process is
what lets either use a second core. What an index maps into memory they share.
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
    """Answer on a listening socket until the process is told to stop."""
    config = uvicorn.Config(app, loop="asyncio", log_level="warning", access_log=False)
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])


def run_workers(count: int, open_them: Callable[[], Backends], listening: socket.socket) -> None:
    """Answer in several processes until this one is told to stop, or one of them ends by itself.

    Args:
        count: processes.
        open_them: called in each process; can be pickled.
        listening: taken by all.

    Raises:
        InputError: if a process ends by itself; all are stopped then.
    """
    context = get_context("spawn")
    workers = [
        context.Process(target=_work, args=(open_them, listening), daemon=True)
        for _ in range(count)
    ]
    for told in (signal.SIGINT, signal.SIGTERM):
        signal.signal(told, signal.default_int_handler)
    try:
        for worker in workers:
            worker.start()
        wait([worker.sentinel for worker in workers])
        raise InputError("a worker process ended by itself, the others were stopped; see above")
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()


def _work(open_them: Callable[[], Backends], listening: socket.socket) -> None:
    """What a worker process does; a Ctrl+C before it serves is for the first process to act on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        app = create_app(open_them())
    except InputError as error:
        sys.exit(f"error: {error}")
    run(app, _InTurn(fileno=listening.detach()))


class _InTurn(socket.socket):
    """A listening socket that gives one connection at a time, then says that no more wait.

    An event loop accepts all that wait: one process would take every connection of a burst, and
    keep them, while the others have nothing to do.
    """

    _given = True

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection, every other time."""
        self._given = not self._given
        if self._given:
            raise BlockingIOError
        return super().accept()
