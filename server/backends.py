"""The searchers a server has, each under a name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.dense.manifest import SPARSE
from indexer.search.api import Searcher
from server.problems import ProblemError


@dataclass(frozen=True)
class Backend:
    """A searcher under a name, with what the server needs to show its answers.

    Attributes:
        name: as in the `backend` parameter of a request.
        searcher: answers from several threads at once.
        photos: the folder the image ids are relative to, None if photos cannot be shown.
        examples: queries worth trying.
        quick: whether a search takes about a millisecond at most. It is then called where the
            request is read: the way to a thread and back costs more than the wait of others.
    """

    name: str
    searcher: Searcher
    photos: Path | None = None
    examples: tuple[str, ...] = ()
    quick: bool = False


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
            hint = " (a + is written %2B in an address)" if " " in name else ""
            detail = f"backend {name[:60]!r} is unknown; this server has: {known}{hint}"
            raise ProblemError("unknown-backend", detail, "backend")
        return self._by_name[name]

    def close(self) -> None:
        """Close all searchers."""
        for backend in self:
            backend.searcher.close()


def open_backends(
    index: Path, photos: Path | None, examples: Sequence[str] = (), engine: str = "auto"
) -> Backends:
    """All that can answer from an index folder: "sparta", dense models, "ensemble".

    Args:
        index: as `sparta index` makes it.
        photos: where the photos are; the folder the index names if None.
        examples: queries worth trying.
        engine: of the inverted index; see `indexer.search.open.open_index`.

    Raises:
        InputError: if the folder is no index, or a damaged one, or there is no such engine.
    """
    # Java starts with the first index, which nothing else here needs.
    from indexer.search.open import open_dense_lazily, open_index

    sparse = open_index(index, engine)
    sparse.warm_up()
    named = sparse.manifest.photos
    folder = photos or (Path(named) if named else None)
    found = folder if folder and folder.is_dir() else None
    searchers: dict[str, Searcher] = {SPARSE: sparse, **open_dense_lazily(index, sparse)}
    return Backends(
        [
            Backend(
                name, searcher, found, tuple(examples), quick=searcher is sparse and sparse.quick
            )
            for name, searcher in searchers.items()
        ]
    )
