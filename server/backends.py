"""The searchers a server has, each under a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.searcher import Searcher
from server.problems import ProblemError


@dataclass(frozen=True)
class Backend:
    """A searcher under a name, with what the server needs to show its answers.

    Attributes:
        name: as in the `backend` parameter of a request.
        searcher: answers from several threads at once.
        photos: the folder the image ids are relative to, None if photos cannot be shown.
        examples: queries worth trying.
    """

    name: str
    searcher: Searcher
    photos: Path | None = None
    examples: tuple[str, ...] = ()


class Backends:
    """Backends by name; the first is the default."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._by_name = {backend.name: backend for backend in backends}
        self.default = backends[0]

    def __iter__(self) -> Iterator[Backend]:
        return iter(self._by_name.values())

    def get(self, name: str | None) -> Backend:
        """The backend of that name, or the default for None.

        Raises:
            ProblemError: if there is none of that name.
        """
        if name is None:
            return self.default
        if name not in self._by_name:
            known = ", ".join(self._by_name)
            detail = f"backend {name[:60]!r} is unknown; this server has: {known}"
            raise ProblemError("unknown-backend", detail, "backend")
        return self._by_name[name]

    def close(self) -> None:
        """Close all searchers."""
        for backend in self:
            backend.searcher.close()


def open_lucene(index: Path, photos: Path | None, examples: Sequence[str] = ()) -> Backend:
    """The backend "lucene" on an index folder.

    Args:
        index: as `sparta index` makes it.
        photos: where the photos are; the folder the index names if None.
        examples: queries worth trying.

    Raises:
        InputError: if the folder is no index, or a damaged one.
    """
    # Java starts with the first index, which nothing else here needs.
    from indexer.lucene_searcher import LuceneSearcher

    searcher = LuceneSearcher(index)
    searcher.warm_up()
    named = searcher.manifest.photos
    folder = photos or (Path(named) if named else None)
    found = folder if folder and folder.is_dir() else None
    return Backend("lucene", searcher, found, tuple(examples))
