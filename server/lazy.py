"""Dense searchers that are opened when somebody asks for them: until then there is no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import RLock
from typing import Any, Generic, TypeVar

from indexer.search.api import Explanation, Searcher, SearchResult, SimilarResult
from server.problems import ProblemError
from sparta.errors import InputError

Opened = TypeVar("Opened", bound=Searcher)

# One for all: while transformers loads a model it changes its own classes for the whole process,
# and two loading at once leave them changed. The ensemble opens its members within its own turn.
_turn = RLock()


class LazySearcher(Generic[Opened]):
    """A dense `Searcher` opened by its first query, once, whichever threads ask.

    Args:
        sparse: of the same images, which it knows without being opened.
        open_searcher: called at the first query; again at the next if it fails.
    """

    explains = False

    def __init__(self, sparse: Searcher, open_searcher: Callable[[], Opened]) -> None:
        self._sparse = sparse
        self._open = open_searcher
        self._opened: Opened | None = None

    def opened(self) -> Opened:
        """The searcher itself.

        Raises:
            ProblemError: if it cannot be opened.
        """
        if self._opened is None:
            with _turn:
                if self._opened is None:
                    self._opened = self._open_now()
        return self._opened

    def _open_now(self) -> Opened:
        try:
            searcher = self._open()
        except InputError as error:
            raise ProblemError("backend-unavailable", str(error), "backend") from error
        # What torch prepares at the first text is not part of the first answer's time.
        searcher.search("a photo", 1)
        return searcher

    def search(self, query: str, k: int = 10) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        return self.opened().search(query, k)

    def explain(self, query: str, image_id: str) -> Explanation:
        """Nothing; see `Searcher.explain`."""
        raise NotImplementedError("the score of a dense model is no sum over terms")

    def similar(self, image_id: str, k: int = 10) -> SimilarResult:
        """The k images most like one of them; see `Searcher.similar`."""
        return self.opened().similar(image_id, k)

    def explain_terms(self, terms: Mapping[str, int], image_id: str) -> Explanation:
        """Nothing; see `Searcher.explain_terms`."""
        raise NotImplementedError("the score of a dense model is no sum over terms")

    def metadata(self, image_id: str) -> dict[str, Any]:
        """What the index stores beside an image; see `Searcher.metadata`."""
        return self._sparse.metadata(image_id)

    def __len__(self) -> int:
        return len(self._sparse)

    def close(self) -> None:
        """Close what was opened."""
        if self._opened is not None:
            self._opened.close()
