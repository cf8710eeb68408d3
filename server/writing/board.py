"""Numbers that the processes of a server share: the writer's commits, and what workers show."""

from __future__ import annotations

from multiprocessing.sharedctypes import RawArray
from typing import Any

from server.monitoring.metrics import WriterCounts

COMMIT = "X-Commit"  # header of the writer: the number of the commit that workers are to show
PLACE = "X-Place"  # header of the writer: the place of the index that has it
REPLACED = "the index was replaced while it was written to: send the change again"
NOT_OPEN = 2**63  # shown by a worker that answers nothing yet: nobody waits for it


class Board:
    """Shared memory that is passed to processes as they start.

    Each number has one writer, and a processor writes eight bytes at once, so there are no locks,
    which a killed process would hold for ever.

    Args:
        workers: number of them.
    """

    def __init__(self, workers: int) -> None:
        self._shown: Any = RawArray("Q", [NOT_OPEN] * workers)
        self._places: Any = RawArray("Q", workers)
        self._commit: Any = RawArray("Q", 1)
        self._counts: Any = RawArray("d", len(WriterCounts._fields))

    @property
    def commit(self) -> int:
        """How many commits the writer has made since the server started, of whatever index."""
        return int(self._commit[0])

    @property
    def counts(self) -> WriterCounts:
        """What the writer has done since the server started."""
        return WriterCounts(*self._counts)

    def count(self, **done: float) -> None:
        """The writer has done so much more of some of `WriterCounts`."""
        for name, more in done.items():
            self._counts[WriterCounts._fields.index(name)] += more

    def committed(self) -> int:
        """The writer has made a commit, which workers are to show at once; its number."""
        self._commit[0] += 1
        return self.commit

    def show(self, worker: int, commit: int, place: int = 0) -> None:
        """A worker shows what was committed up to this one's number, or is `NOT_OPEN`.

        Args:
            worker: number of it.
            commit: number of the commit.
            place: of the index that it shows; see `indexer.state.place_of`.
        """
        self._places[worker] = place
        self._shown[worker] = commit

    def is_shown(self, commit: int, place: int) -> bool:
        """Whether all workers show a commit, or a later one, of the index at a place."""
        shown = zip(self._shown, self._places, strict=True)
        return all(own == NOT_OPEN or (own >= commit and at == place) for own, at in shown)

    def is_replaced(self, commit: int, place: int) -> bool:
        """Whether a worker has looked since a commit, and another index was in its place."""
        shown = zip(self._shown, self._places, strict=True)
        return any(commit <= own < NOT_OPEN and at != place for own, at in shown)
