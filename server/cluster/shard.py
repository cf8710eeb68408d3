"""What runs on a cluster for each shard of an index: replicas that search it, and its writer."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from indexer.engines.open import open_index
from indexer.engines.shards import Question
from indexer.manifest import index_folders, located
from indexer.search.engine import Engine
from indexer.state import index_version
from indexer.store.commit import ReplacedError
from indexer.store.images import UnknownImageError
from sparta.errors import InputError

INGRESS = "sparta"  # the application that has the server's address
INDEX = "sparta-index-"  # and a version: the application with the shards of one index
SHARD, WRITER = "shard-{:03d}", "writer-{:03d}"  # its deployments, by the number of the shard
Result = TypeVar("Result")

REFUSED = (InputError, UnknownImageError, TypeError, ValueError)


@dataclass(frozen=True)
class Served:
    """An index on a cluster."""

    folder: str  # of the index, the same on all machines
    version: str  # of the index
    shards: int  # how many

    @classmethod
    def of(cls, index: Path) -> Served:
        """The index that a path leads to now; raises InputError if it is damaged."""
        folder = located(index).resolve()  # an alias may be switched
        return cls(str(folder), index_version(folder), len(index_folders(folder)))

    @property
    def application(self) -> str:
        """The application with its shards; a copy in another folder has its own."""
        place = blake2b(os.fsencode(self.folder), digest_size=3).hexdigest()
        return f"{INDEX}{self.version}-{place}"


class Refusal(NamedTuple):
    """A question that cannot be answered, on any replica."""

    error: Exception  # to be raised by who asked


def shard_folder(served: Served, number: int) -> Path:
    """The folder of a shard on this machine.

    Raises InputError if there is another index, or none.
    """
    folder = Path(served.folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not on this machine: all machines need the index there")
    if index_version(folder) != served.version:
        raise InputError(f"{folder} is another index than the one that is served: serve it anew")
    return index_folders(folder)[number]


class ShardReplica:
    """Searches a shard; every question is answered at the newest commit."""

    def __init__(self, served: Served, number: int) -> None:
        self._folder = shard_folder(served, number)
        self._engine = self._opened()
        self._lock = Lock()

    def _opened(self) -> Engine:
        searcher = open_index(self._folder)
        searcher.warm_up()
        return searcher.engine

    async def ask(self, question: Question[Result]) -> Result | Refusal:
        """Answer a question."""
        return await asyncio.to_thread(self._ask, question)

    def _ask(self, question: Question[Result]) -> Result | Refusal:
        try:
            return question(self._at_newest())
        except REFUSED as error:
            return Refusal(error)

    def _at_newest(self) -> Engine:
        """The engine of the newest commit."""
        with self._lock:
            try:
                self._engine = self._engine.refreshed() or self._engine
            except ReplacedError:  # a restored snapshot
                self._engine = self._opened()
            return self._engine


class Written(NamedTuple):
    """The writer's response over HTTP."""

    status: int
    headers: dict[str, str]
    content: bytes


class ShardWriter:
    """Writes to a shard; there is one of it, which Ray starts again if it ends."""

    def __init__(self, served: Served, number: int, models: Sequence[str]) -> None:
        # What it imports, replicas need not load.
        import httpx

        from server.writing.app import Writing, create_app
        from server.writing.forward import Board

        self._writing = Writing(shard_folder(served, number), models, Board(1))
        self._writing.shard = True
        transport = httpx.ASGITransport(create_app(self._writing))
        self._client = httpx.AsyncClient(transport=transport, base_url="http://writer")

    async def send(
        self, method: str, path: str, refresh: str, headers: Mapping[str, str], content: bytes
    ) -> Written:
        """Answer a request; see `server.writing.app`."""
        found = await self._client.request(
            method, path, params={"refresh": refresh}, headers=dict(headers), content=content
        )
        return Written(found.status_code, dict(found.headers), found.content)

    def __del__(self) -> None:
        """Commit, when Ray stops it."""
        if hasattr(self, "_writing"):
            self._writing.close()
