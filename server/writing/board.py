"""Numbers that the processes of a server share: the commit to show, and what each worker shows."""

from __future__ import annotations

from multiprocessing.sharedctypes import RawArray
from typing import Any

COMMIT = "X-Commit"  # header of the writer: the commit that workers show before they answer
NOT_OPEN = 2**63  # shown by a worker that answers nothing yet: nobody waits for it
_COMMIT, _COMMITS, _SECONDS = range(3)


class Board:
    """Shared memory that is passed to processes as they start.

    Each number has one writer, and a processor writes eight bytes at once, so there are no locks,
    which a killed process would hold for ever.

    Args:
        workers: number of them.
    """

    def __init__(self, workers: int) -> None:
        self._shown: Any = RawArray("Q", [NOT_OPEN] * workers)
        self._writer: Any = RawArray("d", 3)

    @property
    def commit(self) -> int:
        """The newest commit of the writer, which workers are to show at once; 0 for none."""
        return int(self._writer[_COMMIT])

    @property
    def commits(self) -> tuple[int, float]:
        """How many commits the writer has made, and the seconds that they took."""
        return int(self._writer[_COMMITS]), float(self._writer[_SECONDS])

    def committed(self, commit: int, seconds: float) -> None:
        """The writer has made a commit, which took so long."""
        self._writer[_SECONDS] += seconds
        self._writer[_COMMITS] += 1
        self._writer[_COMMIT] = commit

    def show(self, worker: int, commit: int) -> None:
        """A worker shows a commit, or is `NOT_OPEN`."""
        self._shown[worker] = commit

    def is_shown(self, commit: int) -> bool:
        """Whether all workers show a commit, or a later one."""
        return bool(min(self._shown) >= commit)
