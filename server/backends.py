"""The backends of a server: searchers under their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexer.dense.manifest import SPARSE
from indexer.search.api import Searcher
from server.problems import ProblemError
from server.settings import ServerSettings


@dataclass(frozen=True)
class Backend:
    """A searcher under a name, with what the server needs to show its hits.

    Attributes:
        name: value of the `backend` parameter of a request.
        searcher: must allow searches from several threads at once.
        photos: the folder that image ids are relative to, None if photos cannot be shown.
        examples: example queries for the page.
        quick: whether a search takes about a millisecond at most. It then runs in the event loop,
            because switching to a thread and back would cost more.
        engine: "columns", "lucene" or "dense", for the metrics.
    """

    name: str
    searcher: Searcher
    photos: Path | None = None
    examples: tuple[str, ...] = ()
    quick: bool = False
    engine: str = ""


class Backends:
    """Backends by name; the first is the default."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._by_name = {backend.name: backend for backend in backends}
        self.default = backends[0]

    def __iter__(self) -> Iterator[Backend]:
        return iter(self._by_name.values())

    def get(self, name: str | None) -> Backend:
        """The backend of this name, or the default one for None.

        Raises:
            ProblemError: if there is no such backend.
        """
        if name is None:
            return self.default
        if name not in self._by_name:
            known = ", ".join(self._by_name)
            hint = " (write + as %2B in a URL)" if " " in name else ""
            detail = f"backend {name[:60]!r} is unknown; this server has: {known}{hint}"
            raise ProblemError("unknown-backend", detail, "backend")
        return self._by_name[name]

    def close(self) -> None:
        """Close all searchers."""
        for backend in self:
            backend.searcher.close()


def open_backends(settings: ServerSettings) -> Backends:
    """Open all backends of an index folder: "sparta", dense models, "ensemble".

    Args:
        settings: with the index folder, the photos, the example queries and the engine.

    Raises:
        InputError: if the folder is not an index or is damaged.
    """
    # Imported here, because this starts Java.
    from indexer.search.open import open_dense_lazily, open_index

    sparse = open_index(settings.index, settings.engine)
    sparse.warm_up()
    recorded = sparse.manifest.photos
    folder = settings.photos or (Path(recorded) if recorded else None)
    if folder and not folder.is_dir():
        folder = None
    searchers: dict[str, Searcher] = {SPARSE: sparse, **open_dense_lazily(settings.index, sparse)}
    return Backends(
        [
            Backend(
                name,
                searcher,
                folder,
                settings.examples,
                quick=searcher is sparse and sparse.quick,
                engine=sparse.engine if searcher is sparse else "dense",
            )
            for name, searcher in searchers.items()
        ]
    )
