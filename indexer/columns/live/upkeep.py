"""Compacts and merges the columns of a live index in the background."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, get_native_id

from indexer.columns.live.state import ColumnState, next_number, remove_unlisted
from indexer.live.commit import Commit
from indexer.live.history import read_changes
from sparta.errors import InputError

CLOSING = 5.0  # seconds a merge may go on after the writer was closed
NICE = 10

log = logging.getLogger(__name__)


class Upkeep:
    """Makes new states of the columns in threads of its own, beside searches and writes.

    A compaction makes a segment of the images of finished change logs, a merge one segment of
    several; neither waits for the other. What they make is complete or absent, and nobody reads it
    until a commit names the new state.

    Args:
        index: the index folder; what a killed writer left unfinished is removed.
        vocabulary: number of terms.
        bits: of an impact.
        state: number of the state that the last commit names.
        check: raises `OSError` once another index is in the folder, which is left alone.

    Attributes:
        made: segments.

    Raises:
        InputError: if the state is damaged.
    """

    def __init__(
        self,
        index: Path,
        vocabulary: int,
        bits: int,
        state: int,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._index, self._shape, self._check = index, (vocabulary, bits), check
        remove_unlisted(index, {state})
        self._state, self._number = state, next_number(index)
        # States that are read, and numbers of segments that are being written.
        self._used: list[int] = []
        self.made = 0
        self._making: set[int] = set()
        self._states = Lock()  # held by who reserves numbers, saves a state or removes some
        self._stopped = Event()
        self._compactor = ThreadPoolExecutor(1, initializer=_yield_to_searches)
        self._merger = ThreadPoolExecutor(1, initializer=_yield_to_searches)
        self._compaction: Future[None] = _done()
        self._merge: Future[None] = _done()
        if ColumnState.open(index, state).may_need_merge:
            self._begin_merges()

    @property
    def state(self) -> int:
        """Number of the newest state; all its files are complete."""
        return self._state

    @property
    def ready(self) -> bool:
        """Whether a compaction can begin: none is under way, and this is not closed."""
        return self._compaction.done() and not self._stopped.is_set()

    def compact(self, end: int) -> None:
        """Begin a compaction of all logs before one, if `ready`.

        Args:
            end: number of that log. The others are not written to any more.
        """
        self._compaction = self._compactor.submit(self._reporting, lambda: self._compact(end))

    def _compact(self, end: int) -> None:
        # Few writers get here.
        from indexer.columns.live.compaction import Compaction
        from indexer.columns.live.snapshot import LiveColumns

        with self._beginning() as (former, number):
            columns = LiveColumns.open(self._index, former, *self._shape)
            opened = ColumnState.open(self._index, former)
            changes = read_changes(self._index, opened.log, 0, Commit(log=end))
            final = columns.last(changes)
            compaction = Compaction(self._index, number, opened.segments, final)
            compaction.write(*self._shape)
            self._follow(lambda newest, number: compaction.save(newest, number, end))
        self._begin_merges()

    def _begin_merges(self) -> None:
        """Begin to merge, unless it is under way already."""
        if self._merge.done():
            self._merge = self._merger.submit(self._reporting, self._merge_all)

    def _merge_all(self) -> None:
        """Merge until no merge is due."""
        from indexer.columns.live.compaction import Merge

        while not self._stopped.is_set():
            with self._beginning() as (former, number):
                merge = Merge.due(self._index, former, number)
                if merge is None:
                    return
                merge.write(self._unless_stopped)
                self._follow(merge.save)

    @contextmanager
    def _beginning(self) -> Iterator[tuple[int, int]]:
        """The newest state, and the number of a new segment; neither is removed meanwhile."""
        with self._states:
            former, number = self._state, self._next_number()
            self._used.append(former)
            self._making.add(number)
        try:
            yield former, number
        finally:
            with self._states:
                self._used.remove(former)
                self._making.discard(number)

    def _follow(self, save: Callable[[int, int], object]) -> None:
        """Let a state follow the newest, which may be newer than the one that a job began with."""
        with self._states:
            # Above all that it lists: files that readers may have open keep their number to
            # themselves, though the next writer counts on from what is still there.
            number = self._next_number()
            self._check()
            save(self._state, number)
            self._state = number
            self.made += 1

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _unless_stopped(self, stage: str, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError

    def _reporting(self, job: Callable[[], None]) -> None:
        """Do a job; if it fails, all that was there before stays in use."""
        try:
            job()
        except _StoppedError:
            pass
        except (OSError, InputError) as error:
            log.warning("%s: its segments of columns stay as they are: %s", self._index, error)

    def remove_except(self, states: Collection[int]) -> None:
        """Remove what neither some states nor the newest one need.

        Args:
            states: numbers of those that commits name.
        """
        with self._states:
            self._check()
            remove_unlisted(self._index, {*states, *self._used, self._state}, self._making)

    def wait(self) -> None:
        """Wait until nothing is under way."""
        wait([self._compaction])
        wait([self._merge])

    def close(self, patience: float = CLOSING) -> None:
        """Wait for a compaction, and for merges as long as `patience`; then give those up."""
        wait([self._compaction])
        wait([self._merge], patience)
        self._stopped.set()
        self._compactor.shutdown()
        self._merger.shutdown()
        self._compaction.result()
        self._merge.result()


class _StoppedError(Exception):
    """Ends a merge that was given up."""


def _done() -> Future[None]:
    job: Future[None] = Future()
    job.set_result(None)
    return job


def _yield_to_searches() -> None:
    """Let this thread compute where nobody else does; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICE)
