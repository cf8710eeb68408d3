"""A log of JSON objects, one a line, written in the background of an event loop."""

from __future__ import annotations

import asyncio
import os
import time
from json import JSONEncoder
from typing import Any

from prometheus_client import Counter

STANDARD_OUTPUT = "-"
DELAY = 0.1  # seconds that a line may wait for others
# What a pipe takes in one piece: lines of several processes never mix.
CHUNK = 4096
LONGEST = 1000  # characters of a text in a line

_encode = JSONEncoder(separators=(",", ":")).encode


class JsonLog:
    """Appends objects to a file or the standard output, from an event loop.

    Lines that cannot be written, as on a full disk, are counted and dropped.

    Args:
        path: of the file, "-" for the standard output.
        lost: counts lines that could not be written.

    Raises:
        OSError: if the file cannot be opened.
    """

    def __init__(self, path: str, lost: Counter) -> None:
        self._file = os.dup(1) if path == STANDARD_OUTPUT else _append(path)
        self._lost = lost
        self._lines: list[bytes] = []
        self._second, self._prefix = 0, ""

    def write(self, event: str, values: dict[str, Any]) -> None:
        """Append an object with the time, the kind of event, and values."""
        line = f'{{"time":"{self._now()}","event":"{event}",{_encode(values)[1:]}\n'
        if not self._lines:
            asyncio.get_running_loop().call_later(DELAY, self.flush)
        self._lines.append(line.encode())

    def flush(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        chunk = b""
        for line in lines:
            if chunk and len(chunk) + len(line) > CHUNK:
                self._append(chunk)
                chunk = b""
            chunk += line
        self._append(chunk)

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        os.close(self._file)

    def _append(self, chunk: bytes) -> None:
        try:
            while chunk:
                chunk = chunk[os.write(self._file, chunk) :]
        except OSError:
            self._lost.inc(chunk.count(b"\n"))

    def _now(self) -> str:
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{self._prefix}.{int(now % 1 * 1000):03d}Z"


def _append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
