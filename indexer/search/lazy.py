"""A dense searcher that is opened by its first query; until then torch is not loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

from indexer.query import Query
from indexer.search.api import (
    Fields,
    Filterable,
    Searcher,
    SearchResult,
    Selection,
    SimilarResult,
    UnavailableError,
)
from sparta.errors import InputError

Sparse = TypeVar("Sparse", bound=Searcher)
Opened = TypeVar("Opened", bound=Searcher)

# One lock for all searchers: while transformers loads a model it changes its own classes for the
# whole process, and two models loading at once leave them changed.
_loading = Lock()


class LazySearcher(Generic[Sparse, Opened]):
    """A dense `Searcher` opened once, by the first query of any thread.

    Args:
        sparse: searcher of the same images, which gives metadata without opening.
        opener: of a searcher of the images of `sparse`; called at the first query, and again at
            the next one if it fails.
        count: of those images that the searcher finds; None for all.
    """

    def __init__(
        self,
        sparse: Sparse,
        opener: Callable[[Sparse], Opened],
        count: Callable[[Sparse], int] | None = None,
    ) -> None:
        self._sparse = sparse
        self._open, self._count = opener, count
        self._opened: Opened | None = None
        self._is_warm = False

    def following(self, sparse: Sparse) -> LazySearcher[Sparse, Opened]:
        """The same backend over the images of another commit."""
        newer = LazySearcher(sparse, self._open, self._count)
        newer._is_warm = self._is_warm
        return newer

    def opened(self) -> Opened:
        """The searcher itself.

        Raises:
            UnavailableError: if it cannot be opened.
        """
        if self._opened is None:
            if self._is_warm:  # nothing is loaded, so nobody has to wait
                self._opened = self._open_now()
                return self._opened
            with _loading:
                if self._opened is None:
                    self._opened = self._open_now()
        return self._opened

    @property
    def is_open(self) -> bool:
        """Whether a query has opened it, at this commit or a former one."""
        return self._is_warm

    def _open_now(self) -> Opened:
        try:
            searcher = self._open(self._sparse)
        except InputError as error:
            raise UnavailableError(str(error)) from error
        if not self._is_warm:
            # Run once, so that torch's own preparations do not count in the first answer's time.
            searcher.search("a photo", 1)
            self._is_warm = True
        return searcher

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Selection | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images for a text; see `Searcher.search`.

        Raises:
            UnavailableError: if the searcher cannot be opened.
        """
        return self.opened().search(
            query, k, substitute=substitute, allowed=allowed, min_coverage=min_coverage
        )

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Selection | None = None,
    ) -> SimilarResult:
        """The k images most similar to indexed ones; see `Searcher.similar`.

        Raises:
            UnavailableError: if the searcher cannot be opened.
        """
        return self.opened().similar(image_id, k, words=words, allowed=allowed)

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        return self._sparse.metadata(image_id)

    def field_index(self) -> Fields:
        """The typed fields of the images; see `Filterable.field_index`.

        Raises:
            UnavailableError: if the inverted index has none.
        """
        if not isinstance(self._sparse, Filterable):
            raise UnavailableError("the images have no fields")
        return self._sparse.field_index()

    def __len__(self) -> int:
        """Number of images that the searcher finds."""
        return len(self._sparse) - self.missing

    @cached_property
    def missing(self) -> int:
        """How many images of the index the searcher does not find, having no vectors of them.

        Raises:
            UnavailableError: if the vectors are damaged.
        """
        if self._count is None:
            return 0
        try:
            return len(self._sparse) - self._count(self._sparse)
        except InputError as error:
            raise UnavailableError(str(error)) from error

    def close(self) -> None:
        """Close the searcher if it was opened."""
        if self._opened is not None:
            self._opened.close()
