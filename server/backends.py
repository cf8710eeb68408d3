"""The backends of a server: searchers under their names."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from fastapi import Request

from indexer.dense.manifest import MILVUS, SPARSE
from indexer.search.api import (
    Follower,
    Preparable,
    Searcher,
    UnavailableError,
)
from indexer.search.lazy import LazySearcher
from indexer.shards import index_folders, owner
from indexer.state import IndexState, index_version, place_of
from server.changeover.leases import lease_of
from server.problems import ProblemError
from server.settings import ServerSettings
from server.writing.uploads import has_uploads
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.search.lucene import LuceneSearcher
    from indexer.search.sharded.open import LocalSearcher

log = logging.getLogger(__name__)


@runtime_checkable
class Companion(Protocol):
    """A searcher of the same images as the inverted index, which it is beside."""

    def following(self, sparse: Any) -> Searcher:
        """The same backend beside another commit of the index."""
        ...


@runtime_checkable
class WarmsUp(Protocol):
    """A searcher of an index folder."""

    def warm_up(self) -> None:
        """Do once what the first requests would wait for."""
        ...


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
        engine: "columns", "lucene", "dense" or "milvus", for the metrics.
        uploads: the folders of the index, of its shards if it is divided, which have photos that
            were sent to the server.
    """

    name: str
    searcher: Searcher
    photos: Path | None = None
    examples: tuple[str, ...] = ()
    quick: bool = False
    engine: str = ""
    uploads: tuple[Path, ...] = ()

    @property
    def missing(self) -> int:
        """Images of the index that a dense model has no vectors of.

        Raises:
            UnavailableError: if the vectors are damaged.
        """
        return self.searcher.missing if isinstance(self.searcher, LazySearcher) else 0

    @property
    def has_photos(self) -> bool:
        """Whether the server can show photos."""
        return self.photos is not None or any(map(has_uploads, self.uploads))

    def uploads_with(self, image_id: str) -> Path | None:
        """The folder that has the photo of an image if it was sent to the server."""
        return self.uploads[owner(image_id, len(self.uploads))] if self.uploads else None


class Backends:
    """Backends by name; the first is the default.

    Args:
        backends: at least one.
        state: of the index folder they were opened from, None if from none.
    """

    def __init__(self, backends: Sequence[Backend], state: IndexState | None = None) -> None:
        self._by_name = {backend.name: backend for backend in backends}
        self.default = backends[0]
        self._state = state
        searcher = self.default.searcher
        self._live = searcher if isinstance(searcher, Follower) else None

    @property
    def version(self) -> str:
        """Of the index and, if it was written to, its commit; "unknown" for no index folder."""
        if self._state is None:
            return "unknown"
        commit = self._live.commit.version if self._live is not None else 0
        return f"{self._state.version}.{commit}" if commit else self._state.version

    @property
    def place(self) -> int:
        """Of the index folder they were opened from; 0 for none."""
        return self._state.place if self._state is not None else 0

    @property
    def figures(self) -> tuple[int, int, float]:
        """Images, bytes of the index's files, and when it was built (Unix time)."""
        if self._state is None:
            return len(self.default.searcher), 0, 0.0
        created = datetime.fromisoformat(self._state.manifest.created).timestamp()
        return len(self.default.searcher), self._state.bytes, created

    def missing(self) -> dict[str, int]:
        """Images of the index that each dense model has no vectors of; not of a damaged one."""
        found = {}
        for backend in self:
            with suppress(UnavailableError):
                found[backend.name] = backend.missing
        return {name: found[name] for name in found if name != self.default.name}

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

    def refreshed(self) -> Backends | None:
        """The backends at the newest commit of the index, None if these are at it.

        Raises:
            ReplacedError: if that commit does not continue this one: dense parts, uploads and the
                manifest may be others, too.
        """
        newer = self._live.continued() if self._live is not None else None
        if newer is None:
            return None
        beside = [
            replace(one, searcher=one.searcher.following(newer))
            for one in self
            if isinstance(one.searcher, Companion)
        ]
        return Backends([replace(self.default, searcher=newer), *beside], self._state)

    def warm_up(self) -> None:
        """Do once what the first requests of the index would wait for; takes seconds.

        Raises:
            InputError: if something of the index that is not needed to open it is damaged.
        """
        if isinstance(self.default.searcher, WarmsUp):
            self.default.searcher.warm_up()

    def warm_up_first(self) -> None:
        """As `warm_up`, in a thread where the first answers are quick without it."""

        def run() -> None:
            try:
                self.warm_up()
            except InputError as error:
                log.warning("%s", error)

        if self.default.quick:
            Thread(target=run, name="warm up", daemon=True).start()
        else:
            self.warm_up()

    def prepare_explaining(self) -> None:
        """Open what explains in a thread, where that is not open already; returns at once."""
        if isinstance(self.default.searcher, Preparable):
            self.default.searcher.prepare_explaining()

    def load_as(self, former: Backends) -> None:
        """Load the dense models that are loaded in the former backends, before a query waits."""
        loaded = {backend.name for backend in former if _is_loaded(backend.searcher)}
        for backend in self:
            if backend.name in loaded and isinstance(backend.searcher, LazySearcher):
                backend.searcher.opened()

    def close(self) -> None:
        """Close all searchers."""
        for backend in self:
            backend.searcher.close()


def _is_loaded(searcher: Searcher) -> bool:
    return isinstance(searcher, LazySearcher) and searcher.is_open


def backends_of(request: Request) -> Backends:
    """The backends that a request uses, the same from its beginning to its end."""
    lease = lease_of(request.scope)
    assert lease is not None, "the middleware OneIndex keeps a lease"
    backends: Backends = lease.resource
    return backends


def open_backends(settings: ServerSettings) -> Backends:
    """Open all backends of an index folder: "sparta", dense models, "milvus".

    Args:
        settings: with the index folder, the photos, the example queries and the engine.

    Raises:
        InputError: if the folder is not an index or is damaged, or was replaced meanwhile.
    """
    # Imported here, because this may start Java.
    from indexer.search.open import open_searcher

    index = settings.index.resolve()  # an alias may be switched meanwhile
    state = IndexState.read(index)
    sparse = open_searcher(index, settings.engine)
    try:
        return _opened(index, settings, state, sparse)
    except BaseException:
        sparse.close()  # Java would keep its files
        raise


def _opened(
    index: Path, settings: ServerSettings, state: IndexState, sparse: LuceneSearcher | LocalSearcher
) -> Backends:
    """The backends beside an open index."""
    from indexer.search.lucene import LuceneSearcher
    from indexer.search.open import open_dense_lazily

    recorded = sparse.manifest.photos
    folder = settings.photos or (Path(recorded) if recorded else None)
    if folder and not folder.is_dir():
        folder = None
    uploads = tuple(index_folders(index))
    searchers: dict[str, Searcher] = {SPARSE: sparse}
    if isinstance(sparse, LuceneSearcher):
        searchers |= open_dense_lazily(index, sparse)
        if settings.milvus:
            from indexer.milvus.search import open_milvus

            searchers[MILVUS] = open_milvus(index, sparse, settings.milvus, settings.collection)
    elif settings.milvus:
        raise InputError(f"--milvus: {index} is divided into shards, which are not in Milvus")
    if (index_version(index), place_of(index)) != (state.version, state.place):
        raise InputError(f"{settings.index} was replaced while it was opened: start again")
    return Backends(
        [
            Backend(
                name,
                searcher,
                folder,
                settings.examples,
                quick=searcher is sparse and sparse.quick,
                engine=getattr(searcher, "engine", "dense"),
                uploads=uploads,
            )
            for name, searcher in searchers.items()
        ],
        state,
    )
