"""The worker processes of a server."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

SPAWNED = b"spawn_main"  # in the command line of a worker


def workers_of(server: int) -> list[int]:
    """What a server's first process has started, the first in front; from /proc.

    These are its workers and, while something is written, the process that writes.
    """
    found = []
    with suppress(OSError):  # the server has ended
        for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            with suppress(OSError):  # the worker has just ended
                if SPAWNED in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append((_started(child), int(child)))
    return [worker for _, worker in sorted(found)]


def _started(process: str) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[19])
