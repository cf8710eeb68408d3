"""Memory of a process and its child processes together, and its peak."""

from __future__ import annotations

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
    """The largest sum of memory so far, in bytes; None where it cannot be read."""

    bytes: int | None = None


@contextmanager
def watch(process: int | None = None) -> Iterator[Peak]:
    """Sample the memory from a thread until the `with` block ends.

    Memory is what is resident, mapped files included, though the system could take those back. A
    page that n processes share counts as an nth in each of them (Linux' proportional set size).

    Args:
        process: its id; None for this process.
    """
    peak, over = Peak(), threading.Event()

    def sample() -> None:
        while not over.wait(EVERY):
            resident = [proportional_size(pid) for pid in family(process or os.getpid())]
            if resident[0]:
                peak.bytes = max(peak.bytes or 0, sum(resident))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


def family(process: int) -> list[int]:
    """A process, and from /proc its children, theirs and so on."""
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    except OSError:  # without /proc, or the process has ended
        children = []
    return [process, *(pid for child in children for pid in family(child))]


def proportional_size(pid: int) -> int:
    """A process's share of memory in bytes; 0 without /proc, or if the process has ended.

    A page that n processes share counts as an nth.
    """
    return _sum_of(pid, "Pss")


def private_size(pid: int) -> int:
    """Memory of a process that no file holds, in bytes; 0 as in `proportional_size`."""
    return _sum_of(pid, "Anonymous")


def _sum_of(pid: int, kind: str) -> int:
    try:
        sums = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(rf"^{kind}:\s+(\d+) kB", sums, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0
