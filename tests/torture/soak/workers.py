"""The worker processes of a server."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# In command lines: of a process of its own, and of the one that workers are forks of.
SPAWNED, FORKING = b"spawn_main", b"forkserver"


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
