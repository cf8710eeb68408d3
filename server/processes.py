"""Serving with one or several processes on one listening socket, each with its own searchers.

Python uses one core at a time, and Java answers one search at a time here, so a second core needs
a second process. The processes share the memory-mapped files of an index.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from importlib import import_module
from multiprocessing import Pipe, forkserver, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkContext, ForkServerContext, SpawnContext
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TypeAlias

import uvicorn
from starlette.applications import Starlette

from indexer.manifest import is_sharded
from server.app import create_app
from server.backends import Backends
from server.connections import LimitedProtocol, Listening, State
from server.monitoring.metrics import Metrics, forget, share
from server.security.access import Buckets
from server.security.listening import renew_certificate
from server.settings import KEEP_ALIVE, ServerSettings
from server.watch import stamp_of
from server.writing.forward import NOT_OPEN, Forwarder, WriterAddress
from server.writing.process import STOPS, WriterStarter, leave, stop_with_parent, writer_starter
from sparta.errors import InputError
from sparta.terminal import guard_output

DRAIN = 30.0  # seconds that a server which is stopped has for the requests in flight
CUT = "the server stops before this is answered; a change may be saved: look, and send it again"
ACCEPTING = 1.0  # seconds for who has connected before
LOOK = 5.0  # seconds between two looks at the index that workers are forked with
PAUSE = 5.0  # seconds before another worker is tried in place of one that could not start

Context: TypeAlias = ForkContext | ForkServerContext | SpawnContext

log = logging.getLogger(__name__)


def run(
    app: Starlette,
    listening: socket.socket,
    settings: ServerSettings | None = None,
) -> None:
    """Serve on a listening socket until one of `STOPS`; requests in flight are answered.

    Args:
        app: the application.
        listening: to accept connections from.
        settings: of the server: seconds of draining and of idle connections, and certificate.
    """
    chain, key = (settings.certificate if settings else None) or (None, None)
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        loop="asyncio",
        lifespan="on",  # an application that cannot start must not serve
        ws="none",
        log_level="warning",
        use_colors=False,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # those of named proxies alone are believed; see server.security
        ssl_certfile=chain,
        ssl_keyfile=key,
        timeout_keep_alive=settings.keep_alive_seconds if settings else KEEP_ALIVE,
    )
    # What is open now stays: the collector need not look through it after every large answer.
    gc.collect()
    gc.freeze()
    # As exceptions, signals would end the making of the event loop at any line.
    server = _Server(
        config, app, *((settings.drain_seconds, settings.trusts) if settings else (0,))
    )
    before = {number: signal.signal(number, server.handle_exit) for number in STOPS}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Server(uvicorn.Server):
    """A server that is not ready for some time before it stops, and renews its certificate."""

    server_state: State

    def __init__(
        self,
        config: uvicorn.Config,
        app: Starlette,
        drain: float,
        trusts: Callable[[str], bool] = lambda _: False,
    ) -> None:
        super().__init__(config)
        self.server_state = State(trusts)
        self._app, self._drain = app, drain

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and load the certificate again whenever it is renewed."""
        listening = [Listening(one, self.server_state) for one in sockets or []]
        asyncio.get_running_loop().set_exception_handler(listening[0].report)
        await super().startup([*listening])
        if self.config.ssl is not None:
            files = (Path(str(self.config.ssl_certfile)), Path(str(self.config.ssl_keyfile)))
            self._renewing = asyncio.create_task(renew_certificate(self.config.ssl, *files))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Say so to those who ask, then answer what is in flight and stop."""
        self._app.state.stopping = self.server_state.stopping = True
        for one in self._connections:
            if one.cycle is not None:
                one.cycle.keep_alive = False
        await asyncio.sleep(self._drain)
        loop = asyncio.get_running_loop()
        end = loop.time() + ACCEPTING
        while wait([one for server in self.servers for one in server.sockets], 0):
            if loop.time() > end:
                break
            await asyncio.sleep(0)  # closing the socket would reset who waits to be accepted
        loop.call_later(DRAIN, self._interrupt)
        await super().shutdown(sockets)

    @property
    def _connections(self) -> list[LimitedProtocol]:
        return [one for one in self.server_state.connections if isinstance(one, LimitedProtocol)]

    def _interrupt(self) -> None:
        """Answer what is still in flight in place of the application."""
        for one in self._connections:
            one.interrupt(HTTPStatus.SERVICE_UNAVAILABLE, CUT)
        for task in self.server_state.tasks:
            task.cancel()


class Inherited:
    """Backends that workers begin with, until the index is replaced.

    Attributes:
        backends: of the index as it was when the server started; None once it is another one, so
            that the disk is not kept full with it.
    """

    def __init__(self, backends: Backends, folder: Path) -> None:
        self.backends: Backends | None = backends
        self._folder, self._stamp = folder, stamp_of(folder)

    def prepare(self) -> None:
        """Make and load what workers that are forked afterwards would each make by themselves.

        Raises:
            InputError: if the index is damaged.
        """
        assert self.backends is not None
        self.backends.warm_up()
        import_module("server.preloaded")

    def look(self) -> None:
        """Let the index go if it is not there any more."""
        if self.backends is not None and stamp_of(self._folder) != self._stamp:
            self.backends.close()
            self.backends = None


def can_be_inherited(settings: ServerSettings) -> bool:
    """Whether forks can search an index that was opened before, which Java does not survive."""
    index = settings.index
    return (
        sys.platform == "linux"
        and settings.milvus is None
        and settings.engine != "lucene"
        and not is_sharded(index)
    )


def java_runs() -> bool:
    """Whether opening an index has started Java, as for columns that had to be built."""
    return "jnius" in sys.modules


def run_workers(
    settings: ServerSettings,
    open_backends: Callable[[], Backends],
    listening: socket.socket,
    opened: Inherited | None = None,
) -> None:
    """Serve in several processes until one of `STOPS`; one that dies is replaced.

    Args:
        settings: of the server, with the number of processes.
        open_backends: opens the backends; called in each process and must be picklable.
        listening: socket shared by all.
        opened: backends that the processes are forked with; None to let each open them.

    Raises:
        InputError: if one of the first processes cannot open the backends; the others are stopped.
    """
    with writer_starter(settings) as starter:
        metrics = Path(starter.address.path).parent
        shared = metrics, Buckets(), starter.address, opened
        work = partial(_work, settings, open_backends, listening, *shared)
        _supervise(settings.workers, work, metrics, starter, opened, listening)


def _supervise(
    count: int,
    work: Callable[[int, Event], None],
    metrics: Path,
    starter: WriterStarter,
    inherited: Inherited | None,
    listening: socket.socket,
) -> None:
    """Start workers, and others in place of those that end, until a signal comes.

    `work` is what a worker does, given its number and what it sets when it is ready.
    """
    workers: list[_Worker] = []
    opened = False
    try:
        with stop_signals() as stop:
            workers.append(_Worker(work, 0, inherited is not None))
            # It answers while the others are given more to share.
            if inherited is not None:
                inherited.prepare()
            workers += [_Worker(work, n, inherited is not None) for n in range(1, count)]
            while not stop.poll():
                _wait(workers, starter, stop)
                if inherited is not None:
                    inherited.look()
                for number, worker in enumerate(workers):
                    opened = opened or worker.ready.is_set()
                    if not (worker.process.is_alive() or stop.poll()):
                        forget(metrics, number)
                        starter.address.board.show(number, NOT_OPEN)
                        worker.explain_end(opened)
                        workers[number] = _Worker(work, number, inherited is not None)
    finally:
        for worker in workers:
            worker.process.terminate()
        listening.close()  # who connects from now on is refused at once, and waits for nobody
        # Requests in flight may have something to write.
        while living := [worker for worker in workers if worker.process.is_alive()]:
            _wait(living, starter)
            for number, worker in enumerate(workers):
                if not worker.process.is_alive():
                    starter.address.board.show(number, NOT_OPEN)


def _wait(workers: Sequence[_Worker], starter: WriterStarter, *others: Connection) -> None:
    """Wait some time, at most until a worker has ended; start a writer for them meanwhile."""
    wait([*(worker.process.sentinel for worker in workers), starter.awaited, *others], LOOK)
    starter.look()


class _Worker:
    """A process that serves; `ready` is set as soon as its backends are open."""

    def __init__(self, work: Callable[[int, Event], None], number: int, forked: bool) -> None:
        context: Context = get_context("fork") if forked else start_context()
        self.ready = context.Event()
        self.process = context.Process(target=work, args=(number, self.ready), daemon=True)
        # A fork has this process's handlers until it sets its own.
        with held_back() if forked else nullcontext():
            self.process.start()

    def explain_end(self, opened: bool) -> None:
        """Log that the process has ended, and wait if the next one might end as soon.

        Raises:
            InputError: if none has.
        """
        if not opened:
            raise InputError(
                "a worker process could not start, the others were stopped; see the messages above"
            )
        code = self.process.exitcode
        reason = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        log.warning("worker %s ended (%s); starting another", self.process.pid, reason)
        if not self.ready.is_set():
            time.sleep(PAUSE)


def start_context() -> ForkServerContext | SpawnContext:
    """How workers are started that open the index: as forks of a process that has their modules.

    On Linux alone. They share that memory, 100 MB each, and start without loading it. That process
    has neither threads nor Java, which a fork would not survive.
    """
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(["server.preloaded"])
    forkserver.ensure_running()
    return context


def _work(
    settings: ServerSettings,
    open_backends: Callable[[], Backends],
    listening: socket.socket,
    metrics: Path,
    buckets: Buckets,
    writer: WriterAddress,
    inherited: Inherited | None,
    number: int,
    ready: Event,
) -> None:
    """Serve in a worker process; Ctrl+C is handled by the first process."""
    guard_output()
    take()
    stop_with_parent()
    share(metrics, number)
    try:
        backends = (inherited.backends if inherited else None) or open_backends()
        backends.warm_up_first()
        own, forwarder = Metrics(number, metrics), Forwarder(writer, number)
        app = create_app(backends, settings, own, open_backends, buckets, forwarder)
    except (InputError, OSError) as error:
        sys.exit(f"error: {error}")
    ready.set()
    run(app, listening, settings)


@contextmanager
def stop_signals() -> Iterator[Connection]:
    """A connection that has something to read as soon as one of `STOPS` came.

    As an exception a signal would be lost where Python ignores exceptions, as in imports by C and
    in finalisers, and the server would go on. Afterwards they raise KeyboardInterrupt, as Ctrl+C.
    """
    reader, writer = Pipe(duplex=False)
    for number in STOPS:
        signal.signal(number, lambda *_: writer.send_bytes(b"stop"))
    try:
        yield reader
    finally:
        for number in STOPS:
            signal.signal(number, signal.default_int_handler)
        reader.close()
        writer.close()


@contextmanager
def held_back() -> Iterator[None]:
    """Let a process that is forked now get such signals when it asks for them; see `take`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


def take() -> None:
    """Leave Ctrl+C to the first process, and end by SIGTERM, one that was held back included."""
    leave()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if sys.platform == "linux":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
