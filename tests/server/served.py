"""A server in a process of its own, as `sparta serve` starts it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def served(index: Path, *options: str) -> Iterator[tuple[str, int]]:
    """Serve an index on a free port until the block ends; yields address and process id."""
    command = [sys.executable, "-m", "sparta", "serve", str(index), "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        address = re.search(r"http://[\d.:]+", process.stderr.readline())
        assert address
        while process.poll() is None:
            try:
                httpx.get(f"{address[0]}/readyz", timeout=60)
                break
            except httpx.TransportError:
                time.sleep(0.01)
        yield address[0], process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    finally:
        process.kill()  # where it has not ended; its workers end with it
