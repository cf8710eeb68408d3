"""Watches the folder of an index, and changes over when it has been rebuilt or written to."""

from __future__ import annotations

import gc
import logging
import math
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import TypeAlias

from indexer.dense.manifest import FOLDER as DENSE
from indexer.manifest import MANIFEST, index_folders, located
from indexer.state import index_version, place_of
from indexer.store.commit import ReplacedError, commit_content
from server.backends import Backends, Current
from server.writing.forward import NOT_OPEN, Board
from sparta.errors import InputError

INTERVAL = 0.5  # seconds between two looks
TICK = 0.005  # seconds between two looks at the board
RETRY = 60.0  # seconds after which an index that was refused is tried again

Stamp: TypeAlias = tuple[int, tuple[tuple[int, int, int], ...]]
Commits: TypeAlias = tuple[bytes, ...]

log = logging.getLogger(__name__)


class IndexWatch:
    """Opens an index again when another one is in its place, and follows its commits.

    Another one has another manifest or folder, as that of a copy, or a commit that does not
    continue the one that is shown.

    Requests that run finish on the former one, which is closed then. An index that cannot be
    opened is refused with a warning, and the former one stays.

    Args:
        folder: of the index.
        reopen: opens the index that is there now; called in a thread.
        current: what requests use.
        report: called with "opened" or "refused", of what was rebuilt, or "refreshed".
        board: announces commits, and learns which one is shown; None where nothing is written.
        worker: number of this process on the board.
    """

    def __init__(
        self,
        folder: Path,
        reopen: Callable[[], Backends],
        current: Current,
        report: Callable[[str], None],
        board: Board | None = None,
        worker: int = 0,
    ) -> None:
        self._board, self._worker, self._announced = board, worker, 0
        self._folder, self._reopen, self._current = folder, reopen, current
        self._report = report
        # Not what is there now: it may have been replaced since it was opened.
        self._seen: Stamp | None = None
        self._retry = math.inf
        self._commits: Commits = ()
        self._followed = False  # whether these are shown
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="index watch", daemon=True)

    def start(self) -> None:
        """Look once, and go on in a thread; before requests are answered.

        Whoever waits for a commit waits for this process from now on, so that its requests find
        what was committed before they were sent.
        """
        self._show(0)
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """Stop to watch, and to be waited for; an index that is being opened is waited for."""
        self._stopped.set()
        self._thread.join()
        if self._board is not None:
            self._board.show(self._worker, NOT_OPEN)

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopped.wait(TICK):
            if self._is_announced() or time.monotonic() - last >= INTERVAL:
                self.look()
                last = time.monotonic()

    def _is_announced(self) -> bool:
        """Whether the writer has made a commit since the last call."""
        before = self._announced
        self._announced = self._board.commit if self._board else 0
        return self._announced != before

    def _show(self, commit: int) -> None:
        """Say that what the writer had committed up to a number is shown."""
        if self._board is not None:
            self._board.show(self._worker, commit, self._current.backends.place)

    def look(self) -> None:
        """Change over if the index is another, and close what is no longer used."""
        self._current.close_unused()
        announced = self._board.commit if self._board else 0  # before what it announces is read
        stamp = stamp_of(self._folder)
        if stamp is None:
            return
        known = stamp == self._seen
        if not known or self._retry != math.inf:
            if known and time.monotonic() < self._retry:
                return
            self._seen, self._retry = stamp, math.inf
            if self._is_another() and not self._change(known):
                return
            self._commits = ()
        self._follow(announced)  # it may have been written to since it was opened

    def _is_another(self) -> bool:
        """Whether what is in the folder is not the index that is shown."""
        shown = self._current.backends
        built, _, _ = shown.version.partition(".")
        return (shown.place, built) != (place_of(self._folder), index_version(self._folder))

    def _follow(self, announced: int) -> None:
        """Change over to the newest commit, and say so."""
        newest = _newest_commits(self._folder)
        if newest is not None and newest != self._commits:
            self._commits, self._followed = newest, False
            self._refresh()
        # What is shown is what the path leads to, and has been since the board was read.
        if newest is not None and self._followed and stamp_of(self._folder) == self._seen:
            self._show(announced)

    def _refresh(self) -> None:
        try:
            found = self._current.backends.refreshed()
        except ReplacedError:  # copied into the folder
            self._followed = self._change()
            return
        except Exception as error:  # the former commit is served, until there is another one
            log.warning("a commit of the index is refused, the former one stays: %s", error)
            return
        if found is not None and stamp_of(self._folder) != self._seen:  # it is of a rebuilt index
            found.close()
            return
        self._followed = True
        if found is not None:
            self._current.change(found)
            self._report("refreshed")

    def _change(self, known: bool = False) -> bool:
        """Change over to what is in the folder, unless it is refused."""
        start = time.monotonic()
        try:
            found = self._reopen()
        except Exception as error:  # whatever is wrong with it, the former index is served
            if stamp_of(self._folder) != self._seen:
                return False  # replaced while it was opened: the next look opens what is there then
            self._retry = time.monotonic() + RETRY
            if not known:
                self._report("refused")
                log.warning("the rebuilt index is refused, the former one stays: %s", error)
            return False
        self._current.change(found)
        # As at the start: the collector need not look through what stays.
        gc.collect()
        gc.freeze()
        self._report("opened")
        seconds = time.monotonic() - start
        log.warning("changed over to index %s, opened in %.1f seconds", found.version, seconds)
        return True


def _newest_commits(folder: Path) -> Commits | None:
    """The newest commit of each index in a folder; None while one is being replaced."""
    try:
        return tuple(map(commit_content, index_folders(folder)))
    except (InputError, OSError):
        return None


def stamp_of(folder: Path) -> Stamp | None:
    """What shows that an index or a manifest of it was replaced; None while one is replaced."""
    inner = located(folder)
    paths = [inner / MANIFEST, *sorted((inner / DENSE).glob(f"*/{MANIFEST}"))]
    try:
        place, stats = place_of(folder), [path.stat() for path in paths]
    except (InputError, OSError):
        return None
    return place, tuple((found.st_ino, found.st_mtime_ns, found.st_size) for found in stats)
