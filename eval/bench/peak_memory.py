"""Peak memory of this process and its child processes together."""

from __future__ import annotations

import multiprocessing
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.2  # seconds


@dataclass
class Peak:
    """The largest sum of resident memory so far, in bytes; None where it cannot be read."""

    bytes: int | None = None


@contextmanager
def watch() -> Iterator[Peak]:
    """Sample the memory from a thread until the `with` block ends.

    Pages shared by processes, of programs and of mapped files, count in each of them.
    """
    peak, over = Peak(), threading.Event()

    def sample() -> None:
        while not over.wait(EVERY):
            children = [child.pid for child in multiprocessing.active_children()]
            resident = [_resident(pid) for pid in (os.getpid(), *children)]
            if resident[0]:
                peak.bytes = max(peak.bytes or 0, sum(resident))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def _resident(pid: int | None) -> int:
    """A process's resident memory from /proc; 0 without /proc, or if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0
