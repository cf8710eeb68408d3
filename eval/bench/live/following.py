"""A searcher that follows the commits of an index, and how long its searches take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event, Thread

from indexer.lucene.commits import newest_commit
from indexer.parts import LUCENE
from indexer.search.lucene import LuceneSearcher
from indexer.search.open import open_index

ENGINES = ("columns", "lucene")
POLL = 0.005  # seconds


class Followed:
    """The newest searcher of an index.

    Args:
        index: the index folder.
        engine: of the searcher.
    """

    def __init__(self, index: Path, engine: str) -> None:
        self._folder = index / LUCENE
        self.searcher = open_index(index, engine)
        self.searcher.warm_up()
        self._former: LuceneSearcher | None = None
        self._over = Event()
        self._thread = Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        seen = None
        while not self._over.wait(POLL):
            newest = newest_commit(self._folder)
            if newest == seen:
                continue
            seen = newest
            if newer := self.searcher.refreshed():
                # A search may still be in the last one.
                if self._former is not None:
                    self._former.close()
                self._former, self.searcher = self.searcher, newer

    def wait_for(self, version: int) -> None:
        """Wait until a commit is searched."""
        while self.searcher.commit.version < version:
            time.sleep(POLL / 5)

    def close(self) -> None:
        """Follow no longer."""
        self._over.set()
        self._thread.join()
        if self._former is not None:
            self._former.close()
        self.searcher.close()


@contextmanager
def followed(index: Path, engines: Sequence[str] = ENGINES) -> Iterator[dict[str, Followed]]:
    """Searchers of some engines that follow an index."""
    found: dict[str, Followed] = {}
    try:
        for engine in engines:
            found[engine] = Followed(index, engine)
        yield found
    finally:
        for one in found.values():
            one.close()


def time_searches(
    searchers: dict[str, Followed], texts: Sequence[str], k: int, over: Callable[[], bool]
) -> dict[str, list[float]]:
    """Seconds of searches by engine, text by text in turn, until it is over; at least one each."""
    times: dict[str, list[float]] = {engine: [] for engine in searchers}
    for text in cycle(texts):
        for engine, one in searchers.items():
            start = time.perf_counter()
            one.searcher.search(text, k)
            times[engine].append(time.perf_counter() - start)
        if over():
            return times
    raise AssertionError("unreachable")
