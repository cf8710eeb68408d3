"""A Redis server on this machine, whose data outlives it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_TO_START = 10.0


@contextmanager
def redis_server(folder: Path, port: int) -> Iterator[None]:
    """Serve the data of a folder, at first an empty one, on loopback."""
    options = {"--bind": "127.0.0.1", "--port": str(port), "--dir": str(folder)}
    process = subprocess.Popen(
        ["redis-server", *sum(options.items(), ()), "--appendonly", "yes", "--save", ""],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait(port)
        yield
    finally:
        process.kill()
        process.wait()


def _wait(port: int) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
