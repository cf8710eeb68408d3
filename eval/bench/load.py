"""A server as a child process, its API key, and load on it by the generator `wrk`."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryFile
from typing import IO

from server.security.keys import new_key, write_keys
from sparta.errors import InputError

SCRIPT = Path(__file__).with_name("requests.lua")
ERRORS = ("connect", "read", "write", "timeout", "status")
STOP_SECONDS = 40  # more than a server has for requests in flight


def write_key(file: Path) -> str:
    """Write a file of one new API key, which allows to search and to write; the key."""
    record, key = new_key("bench", "write")
    write_keys(file, [record])
    return key


@dataclass(frozen=True)
class Server:
    """A running server."""

    address: str  # without a path
    pid: int  # of its first process, the leader of a new session

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

    Raises:
        InputError: if the server does not start; the message has the last line of its output.
    """
    command = [sys.executable, "-m", "sparta", "serve", str(index), "--port", "0", *options]
    with TemporaryFile() as output:
        process = subprocess.Popen(command, stderr=output, start_new_session=True)
        try:
            address = _address(process, output)
            yield Server(address, process.pid)
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


@dataclass(frozen=True)
class Load:
    """Figures of a load: each connection sends its next request after each answer."""

    connections: int  # open, each with one request in flight
    requests: int  # answered
    seconds: float  # of the load
    mean_ms: float  # from sending a request to its answer, in milliseconds
    p50_ms: float  # half of the requests took at most this
    p95_ms: float  # 95 of 100
    p99_ms: float  # 99 of 100
    errors: dict[str, int]  # by kind: connect, read, write, timeout, status (400 and above)
    generator_cores: float  # processor seconds of the load generator per second
    answer_bytes: float  # of an answer on average, with its headers

    @property
    def per_second(self) -> float:
        """Requests answered a second."""
        return self.requests / self.seconds


def find_wrk() -> str:
    """The program's path.

    Raises:
        InputError: if it is not installed.
    """
    found = shutil.which("wrk")
    if found is None:
        raise InputError(
            "the load generator wrk is not on PATH: install it (Debian and Ubuntu: apt-get "
            "install wrk; macOS: brew install wrk) and run this again"
        )
    return found


def drive(address: str, paths: Path, connections: int, seconds: int, key: str) -> Load:
    """Send requests from one thread, in the order of a file, repeatedly.

    `paths` is a file of paths, one a line; `address` is the server's, without a path.

    Raises:
        InputError: if wrk is not installed, or fails.
    """
    numbers = ["--threads", "1", "--connections", str(connections), "--duration", f"{seconds}s"]
    numbers += ["--header", f"X-API-Key: {key}"]
    command = [find_wrk(), *numbers, "--script", str(SCRIPT), address, "--", str(paths)]
    before = _processor_seconds()
    done = subprocess.run(command, capture_output=True, text=True)
    used = _processor_seconds() - before
    if done.returncode:
        raise InputError(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    return read_figures(done.stdout, connections, used)


def read_figures(output: str, connections: int, processor_seconds: float) -> Load:
    """Parse the output of wrk with our script.

    Raises:
        InputError: if the last line is not the script's.
    """
    try:
        found = json.loads(output.strip().splitlines()[-1])
        seconds = found["microseconds"] / 1e6
        return Load(
            connections=connections,
            requests=int(found["requests"]),
            seconds=seconds,
            mean_ms=found["mean"] / 1000,
            p50_ms=found["p50"] / 1000,
            p95_ms=found["p95"] / 1000,
            p99_ms=found["p99"] / 1000,
            errors={name: int(found[name]) for name in ERRORS},
            generator_cores=processor_seconds / seconds,
            answer_bytes=found["bytes"] / max(1, found["requests"]),
        )
    except (ValueError, LookupError, TypeError, ZeroDivisionError) as error:
        raise InputError(f"wrk's figures cannot be read ({error!r}): {output.strip()}") from error


def _processor_seconds() -> float:
    """Of all child processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
