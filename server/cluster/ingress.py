"""The server's application on a cluster: the one of a single machine, over remote shards."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from indexer.dense.manifest import SPARSE
from indexer.live.commit import Commit
from indexer.search.api import UnavailableError
from indexer.search.sharded.asking import Asking
from indexer.search.sharded.open import read_language
from indexer.search.sharded.searcher import ShardedSearcher
from indexer.shards import index_folders
from indexer.state import IndexState
from server.app import create_app
from server.backends import Backend, Backends
from server.cluster.names import Served
from server.cluster.remote import RemoteShards
from server.cluster.writers import ClusterForwarder
from server.settings import ServerSettings


class RemoteSearcher(ShardedSearcher):
    """Searches shards on the cluster, each at its newest commit.

    Attributes:
        commit: of all shards together when they last answered; its version is the sum of theirs.
    """

    def __init__(self, asking: Asking) -> None:
        super().__init__(asking)
        self._images = 0

    @property
    def commit(self) -> Commit:
        """Of the shards' last answers."""
        return Commit(sum(one.version for one in self._asking.commits.values()))

    def refreshed(self) -> None:
        """Nothing: shards refresh themselves."""

    def continued(self) -> None:
        """The same."""

    def __len__(self) -> int:
        with suppress(UnavailableError):  # there are as many as there were
            self._images = super().__len__()
        return self._images


def open_remote(settings: ServerSettings, served: Served) -> Backends:
    """The backends over the shards of an index on this cluster.

    Raises:
        InputError: if the folder is not on this machine, or is another index.
        UnavailableError: if a shard does not answer.
    """
    index = Path(served.folder)
    searcher = RemoteSearcher(Asking(RemoteShards(served), read_language(index)))
    searcher.warm_up()
    state = IndexState.read(index)
    photos = settings.photos or (Path(state.manifest.photos) if state.manifest.photos else None)
    backend = Backend(
        SPARSE,
        searcher,
        photos if photos and photos.is_dir() else None,
        settings.examples,
        engine=searcher.engine,
        uploads=tuple(index_folders(index)),
    )
    return Backends([backend], state)


class Ingress:
    """The application, which `reconfigure` changes over to another index.

    Args:
        settings: of the server.
        served: the index.
    """

    async def __init__(  # type: ignore[misc] # as Ray Serve starts what has an application
        self, settings: ServerSettings, served: Served
    ) -> None:
        self._settings, self._served = settings, served
        backends = await asyncio.to_thread(open_remote, settings, served)
        self._forwarder = ClusterForwarder(served)
        self._app = create_app(backends, settings, forwarder=self._forwarder)

    def __serve_build_asgi_app__(self) -> FastAPI:  # Ray's name
        """The application, as Ray asks for it."""
        return self._app

    async def reconfigure(self, served: dict[str, Any]) -> None:
        """Use an index for new requests; those in flight end with the former one."""
        wanted = Served(**served)
        if wanted == self._served:
            return
        current = self._app.state.current
        current.change(await asyncio.to_thread(open_remote, self._settings, wanted))
        current.close_unused()
        self._served = wanted
        self._forwarder.use(wanted)
