"""A searcher that the server's threads ask one after the other."""

from __future__ import annotations

from threading import Lock
from typing import Any

from indexer.searcher import Explanation, Searcher, SearchResult

# One for the whole process: pyjnius keeps the object a Java method is called on in a place that
# all threads share (its issue 563), so that two calls at once reach each other's objects and
# may bring the process down, whichever searchers they come from.
_java = Lock()


class TakingTurns:
    """Passes every call on to a searcher, never two at once."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher

    def search(self, query: str, k: int = 10) -> SearchResult:
        """See `Searcher.search`."""
        with _java:
            return self._searcher.search(query, k)

    def explain(self, query: str, image_id: str) -> Explanation:
        """See `Searcher.explain`."""
        with _java:
            return self._searcher.explain(query, image_id)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """See `Searcher.metadata`."""
        with _java:
            return self._searcher.metadata(image_id)

    def __len__(self) -> int:
        return len(self._searcher)

    def close(self) -> None:
        """See `Searcher.close`."""
        with _java:
            self._searcher.close()
