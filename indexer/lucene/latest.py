"""A Lucene index at its newest commit, opened when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from indexer.live.commit import Commit
from indexer.lucene.reader import LuceneIndex


class LatestLucene:
    """A Lucene index that is written to, for searchers of several commits. Safe from any thread.

    Each commit is opened only if it is asked for, and closed when a later one is open and nobody
    reads it any more.

    Args:
        open_index: opens the newest commit.
    """

    def __init__(self, open_index: Callable[[], LuceneIndex]) -> None:
        self._open = open_index
        self._lock = Lock()
        self._owners = 1
        self._newest: LuceneIndex | None = None
        self._readers: dict[LuceneIndex, int] = {}

    def shared(self) -> LatestLucene:
        """The same, with one owner more, who closes it."""
        with self._lock:
            self._owners += 1
        return self

    def close(self) -> None:
        """One owner less; the last one closes what is open. Nobody reads then."""
        with self._lock:
            self._owners -= 1
            if self._owners == 0:
                self._newest = None
                self._close_unread()

    @contextmanager
    def reading(self, version: int) -> Iterator[LuceneIndex]:
        """The index at a commit, or at a later one.

        Args:
            version: of the commit.

        Raises:
            InputError: if the index is damaged.
        """
        with self._lock:
            index = self._at_least(version)
            self._readers[index] += 1
        try:
            yield index
        finally:
            with self._lock:
                self._readers[index] -= 1
                self._close_unread()

    def _at_least(self, version: int) -> LuceneIndex:
        newest = self._newest
        if newest is None:
            newest = self._open()
        elif Commit.of(newest.commit_data, newest.folder).version < version:
            newest = newest.refreshed() or newest
        self._newest = newest
        self._readers.setdefault(newest, 0)
        return newest

    def _close_unread(self) -> None:
        for index in [index for index, count in self._readers.items() if not count]:
            if index is not self._newest:
                del self._readers[index]
                index.close()
