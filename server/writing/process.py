"""The writer process of a server: started by the first request that writes, ended when idle.

The server's first process holds a listening socket and looks when somebody connects. So a server
that nobody writes to has no such process, and one that has ended is started by the next request,
which waits in the socket's queue meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING

import uvicorn

from server.settings import ServerSettings
from server.writing.forward import Board, WriterAddress
from sparta.errors import InputError
from sparta.files import writing
from sparta.terminal import guard_output

if TYPE_CHECKING:
    from server.writing.app import Writing

# A closed terminal ends a server in order, unless nohup keeps it running.
STOPS = [signal.SIGINT, signal.SIGTERM]
if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    STOPS.append(signal.SIGHUP)
IDLE = 15.0  # seconds without a request after which the process ends, and lets others write
LAST = 10.0  # seconds to commit when the server stops
FOLDER = "visualsparta-server-"  # prefix of the temporary folder of a server, locked while it runs
LOOK = 0.5  # seconds between two looks whether the server stops


class WriterStarter:
    """Starts a writer when somebody connects and none runs.

    Attributes:
        address: of the writer.
    """

    def __init__(
        self, settings: ServerSettings, listening: socket.socket, address: WriterAddress
    ) -> None:
        self.address = address
        self._settings, self._listening = settings, listening
        self._process: SpawnProcess | None = None

    @property
    def awaited(self) -> socket.socket | int:
        """What `multiprocessing.connection.wait` waits for until `look` has something to do."""
        return self._listening if self._process is None else self._process.sentinel

    def look(self) -> None:
        """Notice that a writer has ended, and start one if somebody waits for it."""
        if self._process is not None and not self._process.is_alive():
            self._process = None
        if self._process is None and wait([self._listening], 0):
            self._process = get_context("spawn").Process(
                target=_write,
                args=(self._settings, self.address.board, self._listening),
                daemon=True,
            )
            self._process.start()

    def stop(self) -> None:
        """End the writer."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(LAST)
            self._process.kill()  # what it works on was given up, and the log has what it answered
            self._process.join()


@contextmanager
def writer_starter(settings: ServerSettings) -> Iterator[WriterStarter]:
    """What starts a writer for workers, as long as the block calls `look`."""
    for left in Path(gettempdir()).glob(f"{FOLDER}*"):  # of servers that were killed
        with suppress(InputError, OSError), writing(left / "owner"):
            rmtree(left)
    with (
        TemporaryDirectory(prefix=FOLDER) as folder,
        writing(Path(folder) / "owner"),
        socket.socket(socket.AF_UNIX) as listening,
    ):
        path = f"{folder}/socket"
        listening.bind(path)
        listening.listen()
        starter = WriterStarter(settings, listening, WriterAddress(path, Board(settings.workers)))
        try:
            yield starter
        finally:
            starter.stop()


@contextmanager
def writer_process(settings: ServerSettings) -> Iterator[WriterAddress]:
    """Start a writer whenever there is something to write, until the block ends."""
    stopped = threading.Event()
    with writer_starter(settings) as starter:
        looking = threading.Thread(target=_look, args=(starter, stopped), daemon=True)
        looking.start()
        try:
            yield starter.address
        finally:
            stopped.set()
            looking.join()


def _look(starter: WriterStarter, stopped: threading.Event) -> None:
    while not stopped.is_set():
        wait([starter.awaited], LOOK)
        starter.look()


def _write(settings: ServerSettings, board: Board, listening: socket.socket) -> None:
    """Serve the socket in this process until there has been no request for some time."""
    from server.writing.app import Writing, create_app

    guard_output()
    leave()
    stop_with_parent()
    writing = Writing(settings.index, settings.models, board)
    config = uvicorn.Config(
        create_app(writing),
        loop="asyncio",
        ws="none",
        log_level="warning",
        use_colors=False,
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
        """Whether to end; another server's writer gets its turn meanwhile."""
        await asyncio.to_thread(self._writing.hand_over)
        return await super().on_tick(counter) or self._writing.idle_seconds > IDLE


def leave() -> None:
    """Leave Ctrl+C, and a terminal that is closed, to the first process."""
    for number in STOPS:
        if number is not signal.SIGTERM:
            signal.signal(number, signal.SIG_IGN)


def stop_with_parent() -> None:
    """Stop this process as SIGTERM does when the one that started it ends, even if killed."""

    def wait() -> None:
        first = parent_process()
        if first is not None:
            first.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
