"""The writer process of a server: started by the first request that writes, ended when idle.

The server's first process holds a listening socket and looks when somebody connects. So a server
that nobody writes to has no such process, and one that has ended is started by the next request,
which waits in the socket's queue meanwhile.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvicorn

from server.parent import stop_with_parent
from server.settings import ServerSettings
from server.writing.board import Board

if TYPE_CHECKING:
    from server.writing.app import Writing

IDLE = 15.0  # seconds without a request after which the process ends, and lets others write
LOOK = 0.5  # seconds between two looks whether the server stops


@dataclass(frozen=True)
class WriterAddress:
    """Where workers reach the writer, and what they share with it.

    Attributes:
        path: of the socket, in a folder that only this user can enter.
        board: of commits.
    """

    path: str
    board: Board


@contextmanager
def writer_process(settings: ServerSettings) -> Iterator[WriterAddress]:
    """Start a writer whenever there is something to write, until the block ends.

    Args:
        settings: of the server.
    """
    board = Board(settings.workers)
    with TemporaryDirectory(prefix="visualsparta-writer-") as folder:
        path = f"{folder}/socket"
        stopped = threading.Event()
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            starter = threading.Thread(
                target=_start_when_needed, args=(settings, board, listening, stopped), daemon=True
            )
            starter.start()
            try:
                yield WriterAddress(path, board)
            finally:
                stopped.set()
                starter.join()


def _start_when_needed(
    settings: ServerSettings, board: Board, listening: socket.socket, stopped: threading.Event
) -> None:
    while not stopped.is_set():
        if not select.select([listening], [], [], LOOK)[0]:
            continue
        process = get_context("spawn").Process(
            target=_write, args=(settings, board, listening), daemon=True
        )
        process.start()
        while process.is_alive():
            process.join(LOOK)
            if stopped.is_set():
                process.terminate()


def _write(settings: ServerSettings, board: Board, listening: socket.socket) -> None:
    """Serve the socket in this process until there has been no request for some time."""
    from server.writing.app import Writing, create_app

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop_with_parent()
    writing = Writing(settings.index, settings.models, board)
    config = uvicorn.Config(
        create_app(writing),
        loop="asyncio",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    _Server(config, writing).run(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that ends when it is idle; who connects meanwhile is answered by the next one."""

    def __init__(self, config: uvicorn.Config, writing: Writing) -> None:
        super().__init__(config)
        self._writing = writing

    async def on_tick(self, counter: int) -> bool:
        """Whether to end."""
        return await super().on_tick(counter) or self._writing.idle_seconds > IDLE
