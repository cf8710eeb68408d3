"""The backends of a server, searchers under their names, and which of them a request uses."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from threading import Lock, Thread

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from indexer.answer import UnavailableError, Version
from indexer.dense.manifest import MILVUS, SPARSE, members_of
from indexer.manifest import Manifest, index_folders, is_sharded, located, owner
from indexer.search.engine import Capability
from indexer.search.searcher import Searcher
from indexer.state import IndexState, index_version, place_of
from server.monitoring.monitor import record_of
from server.photo_files import has_uploads
from server.problems import ProblemError
from server.settings import ServerSettings
from sparta.errors import InputError
from sparta.extras import check_installed

_LEASE = "visualsparta.lease"  # in the ASGI scope

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backend:
    """A searcher under a name, with what the server needs to show its hits."""

    name: str  # value of the `backend` parameter of a request
    searcher: Searcher  # of the backend
    # The folder that image ids are relative to, None if photos cannot be shown
    photos: Path | None = None
    examples: tuple[str, ...] = ()  # example queries for the page
    # The folders of the index, of its shards if it is divided, which have photos that were sent to
    # the server
    uploads: tuple[Path, ...] = ()

    @property
    def quick(self) -> bool:
        """Whether a search runs in the event loop: switching to a thread would cost more."""
        return Capability.QUICK in self.searcher.can

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
        self._warming: Thread | None = None

    @property
    def version(self) -> str:
        """Of the index and, if it was written to, its commit; "unknown" for no index folder."""
        return self.version_of(self.default.searcher.version)

    def version_of(self, answer: Version) -> str:
        """As `version`, of the commit that gave an answer."""
        return "unknown" if self._state is None else answer.of(self._state.version)

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
                found[backend.name] = backend.searcher.missing_images
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
            dense = [one.name for one in self if one.searcher.engine.name == "dense"]
            if members := members_of(name, dense):
                return self._together(name, [self._by_name[one] for one in members])
            known = ", ".join(self._by_name)
            hint = " (write + as %2B in a URL)" if " " in name else ""
            detail = f"backend {name[:60]!r} is unknown; this server has: {known}{hint}"
            raise ProblemError("unknown-backend", detail, "backend")
        return self._by_name[name]

    def _together(self, name: str, members: Sequence[Backend]) -> Backend:
        from indexer.engines.open import together

        for one in members:
            one.searcher.used = True  # what follows this index loads their models, too
        return replace(members[0], name=name, searcher=together([m.searcher for m in members]))

    def refreshed(self) -> Backends | None:
        """The backends at the newest commit of the index, None if these are at it.

        Raises:
            ReplacedError: if that commit does not continue this one: dense parts, uploads and the
                manifest may be others, too.
        """
        newer = self.default.searcher.continued()
        if newer is None:
            return None
        from indexer.engines.open import beside

        others = [
            replace(one, searcher=beside(one.searcher, newer))
            for one in self
            if one is not self.default
        ]
        return Backends([replace(self.default, searcher=newer), *others], self._state)

    def warm_up(self) -> None:
        """Do once what the first requests of the index would wait for; takes seconds.

        Raises:
            InputError: if something of the index that is not needed to open it is damaged.
        """
        self.default.searcher.warm_up()

    def warm_up_first(self) -> None:
        """As `warm_up`, in a thread where the first answers are quick without it."""

        def run() -> None:
            try:
                self.warm_up()
            except (InputError, OSError) as error:  # such as too many open files
                log.warning("%s", error)

        if self.default.quick:
            self._warming = Thread(target=run, name="warm up", daemon=True)
            self._warming.start()
        else:
            self.warm_up()

    def load_as(self, former: Backends) -> None:
        """Load the dense models that are loaded in the former backends, before a query waits."""
        used = {backend.name for backend in former if backend.searcher.used}
        for backend in self:
            if backend.name in used and backend is not self.default:
                backend.searcher.warm_up()

    def close(self) -> None:
        """Close all searchers, once they are warm: native code may not outlive the interpreter."""
        if self._warming is not None:
            self._warming.join()
        for backend in self:
            backend.searcher.close()


def open_backends(settings: ServerSettings) -> Backends:
    """Open all backends of an index folder: "sparta", dense models, "milvus".

    Raises:
        InputError: if the folder is not an index or is damaged, or was replaced meanwhile.
    """
    # Imported here, because this may start Java.
    from indexer.engines.open import open_dense, open_index

    index = located(settings.index).resolve()  # an alias may be switched meanwhile
    state = IndexState.read(index)
    if settings.milvus:
        Manifest.read(index)  # of an index in shards it says what to do
    sparse = open_index(index, settings.engine)
    searchers = {SPARSE: sparse}
    if not is_sharded(index):
        searchers |= open_dense(index, sparse)
    if settings.milvus:
        check_installed("milvus", "pymilvus")
        from indexer.milvus.engine import open_milvus

        searchers[MILVUS] = open_milvus(index, sparse, settings.milvus, settings.collection)
    if (index_version(index), place_of(index)) != (state.version, state.place):
        sparse.close()  # Java would keep its files
        raise InputError(f"{settings.index} was replaced while it was opened: start again")
    folder, uploads = photos_of(settings, state), tuple(index_folders(index))
    backends = [
        Backend(name, searcher, folder, settings.examples, uploads)
        for name, searcher in searchers.items()
    ]
    return Backends(backends, state)


def photos_of(settings: ServerSettings, state: IndexState) -> Path | None:
    """The folder with the photos of an index, None if it is not on this machine."""
    recorded = state.manifest.photos
    folder = settings.photos or (Path(recorded) if recorded else None)
    return folder if folder and folder.is_dir() else None


class Lease:
    """Backends and the number of their users; safe from any thread.

    Attributes:
        backends: not closed while they have users.
    """

    def __init__(self, backends: Backends) -> None:
        self.backends = backends
        self._users = 0
        self._lock = Lock()

    def take(self) -> None:
        """Count a user."""
        with self._lock:
            self._users += 1

    def give_back(self) -> None:
        """Count a user less."""
        with self._lock:
            self._users -= 1

    @property
    def used(self) -> bool:
        """Whether they have users."""
        return self._users > 0


class Current:
    """The backends that new requests use, and replaced ones that older requests still use."""

    def __init__(self, backends: Backends) -> None:
        self._lease = Lease(backends)
        self._replaced: list[Lease] = []
        self._lock = Lock()

    @property
    def backends(self) -> Backends:
        """The newest ones."""
        return self._lease.backends

    def take(self, scope: Scope) -> Lease:
        """A lease of the newest ones for a request, which gives it back."""
        with self._lock:
            self._lease.take()
            scope[_LEASE] = lease = self._lease
        record_of(scope).index = lease.backends.version
        return lease

    def change(self, backends: Backends) -> None:
        """Let new requests use other backends; `close_unused` closes the former ones."""
        with self._lock:
            self._replaced.append(self._lease)
            self._lease = Lease(backends)

    def close_unused(self) -> None:
        """Close what has been replaced and is no longer used."""
        unused = [lease for lease in self._replaced if not lease.used]
        self._replaced = [lease for lease in self._replaced if lease not in unused]
        for lease in unused:
            lease.backends.close()

    def close(self) -> None:
        """Close all, at the end, when no request is answered any more."""
        for lease in (*self._replaced, self._lease):
            lease.backends.close()


def lease_of(scope: Scope) -> Lease | None:
    """What a request uses, None before `Current.take`."""
    lease: Lease | None = scope.get(_LEASE)
    return lease


def backends_of(request: Request) -> Backends:
    """The backends that a request uses, the same from its beginning to its end."""
    lease = lease_of(request.scope)
    assert lease is not None, "the middleware OneIndex takes a lease"
    return lease.backends


class OneIndex:
    """The innermost middleware: a request uses the index that was current when it arrived."""

    def __init__(self, app: ASGIApp, current: Current) -> None:
        self.app, self.current = app, current

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        lease = self.current.take(scope)
        try:
            await self.app(scope, receive, send)
        finally:
            lease.give_back()
