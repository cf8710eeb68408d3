"""`sparta serve` as a child process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from sparta.errors import InputError

STOP_SECONDS = 40  # more than a server has for requests in flight


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        address: without a path.
        pid: of its first process, the leader of a new session.
        output: file of what its processes print.
    """

    address: str
    pid: int
    output: IO[bytes]

    def messages(self) -> str:
        """What its processes have printed so far, one megabyte at most."""
        return _read(self.output)

    def processor_seconds(self) -> float:
        """Processor time of all its running processes so far; nan without /proc."""
        if not Path("/proc/self/stat").exists():
            return float("nan")
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # the process has just ended
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(index: Path, *options: str) -> Iterator[Server]:
    """Serve an index on a free local port, and stop the server at the end in any case.

    Args:
        index: as `sparta index` makes it.
        options: of `sparta serve`.

    Raises:
        InputError: if the server does not start; the message has the last line of its output.
    """
    with _running(["sparta", "serve", str(index), "--port", "0", *options]) as server:
        yield server


@contextmanager
def bare_route(size: int) -> Iterator[Server]:
    """Likewise a FastAPI route that returns a constant of so many bytes.

    Raises:
        InputError: if the server does not start.
    """
    with _running(["eval.bench.serving.bare_route", str(size)]) as server:
        yield server


@contextmanager
def _running(module: list[str]) -> Iterator[Server]:
    """Run a module with arguments that serves, and stop it."""
    with TemporaryFile() as output:
        command = [sys.executable, "-m", *module]
        process = subprocess.Popen(command, stderr=output, start_new_session=True)
        try:
            address = _address(process, output)
            yield Server(address, process.pid, output)
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], output: IO[bytes]) -> str:
    """Wait until the server answers, however long its start takes."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", _read(output))
        if found:
            with suppress(OSError), urllib.request.urlopen(f"{found[0]}/readyz", timeout=1):
                return found[0]
        time.sleep(0.05)
    last = (_read(output).strip().splitlines() or ["nothing"])[-1]
    raise InputError(f"the server did not start; its last output: {last}")


def _read(output: IO[bytes]) -> str:
    # pread does not move the file position, which the child process shares.
    return os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):  # usually all its processes have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
