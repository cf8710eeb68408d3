"""A server in a process of its own, as `sparta serve` starts it, or of fakes with some workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import httpx

from indexer.answer import Answer
from indexer.query import Query
from server import processes
from server.backends import Backend, Backends
from server.processes import run, run_workers
from server.security.listening import listen
from server.settings import url
from sparta.errors import InputError
from tests.server.apps import app_of, make_key, settings
from tests.server.fake import FakeSearcher

# In command lines: of a process of its own, and of the one that workers are forks of.
SPAWNED, FORKING = b"spawn_main", b"forkserver"


@contextmanager
def served(
    index: Path, *options: str, output: IO[bytes] | None = None
) -> Iterator[tuple[str, int]]:
    """Serve an index on a free port until the block ends; yields address and process id.

    Args:
        index: to serve.
        options: of `sparta serve`.
        output: file for what the server prints; by default a temporary one.
    """
    command = [sys.executable, "-m", "sparta", "serve", str(index), "--port", "0", *options]
    with nullcontext(output) if output else TemporaryFile() as printed:
        process = subprocess.Popen(command, stderr=printed)
        try:
            yield _address(process, printed), process.pid
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()  # where it has not ended; its workers end with it
            process.wait()


@contextmanager
def written(index: Path, *options: str) -> Iterator[tuple[httpx.Client, int]]:
    """Serve an index; yields a client that may write, and the server's process id.

    Each request has a connection of its own, so that all workers answer.
    """
    keys = index.parent / "keys.json"
    headers = {"Authorization": f"Bearer {make_key(keys, 'write')}", "Connection": "close"}
    with (
        served(index, *options, "--keys", str(keys)) as (address, pid),
        httpx.Client(base_url=address, headers=headers, timeout=60) as client,
    ):
        yield client, pid


def _address(process: subprocess.Popen[bytes], printed: IO[bytes]) -> str:
    """Wait until the server answers, however long its start takes."""
    while True:
        # pread does not move the file position, which the server shares.
        text = os.pread(printed.fileno(), 1 << 20, 0).decode(errors="replace")
        assert process.poll() is None, text
        if address := re.search(r"http://[\d.:]+", text):
            with suppress(httpx.TransportError):
                httpx.get(f"{address[0]}/readyz", timeout=60)
                return address[0]
        time.sleep(0.01)


def await_end(server: int) -> None:
    """Wait until a process of ours has ended, whose status nobody has read; from /proc."""
    late = time.monotonic() + 60
    while Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < late, f"process {server} still runs"
        time.sleep(0.05)


def workers_of(server: int) -> list[int]:
    """What a server's first process has started, or its forks, the first in front; from /proc.

    These are its workers and, while something is written, the process that writes.
    """
    found = []
    for child in _children(server):
        with suppress(OSError):  # the process has just ended
            line = _command_line(child)
            own = [child] if SPAWNED in line or line == _command_line(server) else []
            own += _children(child) if FORKING in line else []
            found += [(_started(one), one) for one in own]
    return [worker for _, worker in sorted(found)]


def _command_line(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def _children(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:  # it has ended
        return []
    return [int(child) for child in children.split()]


def _started(process: int) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19])


class Slow(FakeSearcher):
    """Takes two seconds for "slow"."""

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        if query == "slow":
            time.sleep(2)
            query = "red"
        return super().search(query, k, **options)


def open_fakes() -> Backends:
    return Backends([Backend("sparta", Slow())])


def open_hurriedly() -> Backends:
    processes.DRAIN = 0.5  # a worker is no fork of the first process
    return open_fakes()


def refuse(index: Path) -> Backends:
    raise InputError(f"{index} is not an index")


def open_while(index: Path) -> Backends:
    """As long as a file exists; leaves a file with the number of the process."""
    if not index.exists():
        return refuse(index)
    index.with_name(f"{os.getpid()}.opened").touch()
    return open_fakes()


def serve(kind: str, workers: int = 2) -> None:
    """Print the address and serve until interrupted.

    Args:
        kind: "fakes"; these "hurried", with little time to stop, or "draining" for two seconds;
            "nothing", whose backends fail to open; or a file, with which they open.
        workers: number of processes.
    """
    processes.PAUSE = 0.1
    processes.DRAIN = 0.5 if kind == "hurried" else processes.DRAIN
    chosen = settings(workers=workers, drain_seconds=2 if kind == "draining" else 0)
    kinds: dict[str, Callable[[], Backends]] = {
        "fakes": open_fakes,
        "hurried": open_hurriedly,
        "draining": open_fakes,
        "nothing": partial(refuse, Path("photos")),
    }
    with listen("127.0.0.1", 0) as listening:
        sys.stdout.write(f"{url('127.0.0.1', listening.getsockname()[1])}\n")
        sys.stdout.flush()
        if workers == 1:
            run(app_of(*open_fakes()), listening, chosen)
        else:
            opener = kinds.get(kind, partial(open_while, Path(kind)))
            run_workers(chosen, opener, listening)
