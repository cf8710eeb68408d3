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

STOP_SECONDS = 10


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        address: without a path.
        pid: of its first process, which leads a session of its own.
    """

    address: str
    pid: int

    def processor_seconds(self) -> float:
        """Used so far by all its processes that run; nan where there is no /proc."""
        if not Path("/proc/self/stat").exists():
            return float("nan")
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it ended just now
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(index: Path, *options: str) -> Iterator[Server]:
    """Serve an index on a free port of this machine alone; stopped in the end, come what may.

    Args:
        index: as `sparta index` makes it.
        options: of `sparta serve`.

    Raises:
        InputError: if the server does not start; says what it said last.
    """
    command = [sys.executable, "-m", "sparta", "serve", str(index), "--port", "0", *options]
    with TemporaryFile() as said:
        process = subprocess.Popen(command, stderr=said, start_new_session=True)
        try:
            address = _address(process, said)
            yield Server(address, process.pid)
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    """Wait until the server answers, however long it prepares itself."""
    while process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+", _read(said))
        if found:
            with suppress(OSError), urllib.request.urlopen(f"{found[0]}/health", timeout=1):
                return found[0]
        time.sleep(0.05)
    last = (_read(said).strip().splitlines() or ["nothing"])[-1]
    raise InputError(f"sparta serve ended at once; it said: {last}")


def _read(said: IO[bytes]) -> str:
    # The child writes where this file stands: it is read without moving there.
    return os.pread(said.fileno(), 1 << 20, 0).decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):  # usually none of its processes is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
