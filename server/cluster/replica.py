"""What runs for a shard: replicas that search it, and one that writes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import httpx

from indexer.lucene.commits import newest_commit
from indexer.parts import LUCENE
from indexer.search.api import UnknownImageError
from indexer.search.open import open_index
from indexer.search.sharded.shards import Answer, Shared, answer
from indexer.search.sharded.tasks import Task
from indexer.shards import index_folders
from indexer.state import index_version
from server.cluster.names import Served
from server.writing.app import Writing, create_app
from server.writing.board import Board
from sparta.errors import InputError

Result = TypeVar("Result")

REFUSED = (InputError, UnknownImageError, TypeError, ValueError)


class Refusal(NamedTuple):
    """A task that cannot be done, on any replica.

    Attributes:
        error: to be raised by who asked.
    """

    error: Exception


class Written(NamedTuple):
    """The writer's response.

    Attributes:
        status: of HTTP.
        headers: likewise.
        content: likewise.
    """

    status: int
    headers: dict[str, str]
    content: bytes


def shard_folder(served: Served, number: int) -> Path:
    """The folder of a shard on this machine.

    Raises:
        InputError: if there is another index, or none.
    """
    folder = Path(served.folder)
    if not folder.is_dir():
        raise InputError(f"{folder} is not on this machine: all machines need the index there")
    if index_version(folder) != served.version:
        raise InputError(f"{folder} is another index than the one that is served: serve it anew")
    return index_folders(folder)[number]


class ShardReplica:
    """Searches a shard; every task is done at the newest commit.

    Args:
        served: the index.
        number: of the shard.
        engine: see `open_index`.
    """

    def __init__(self, served: Served, number: int, engine: str) -> None:
        self._folder = shard_folder(served, number)
        searcher = open_index(self._folder, engine)
        searcher.warm_up()
        self._open = Shared(searcher)
        self._newest = ""
        self._lock = Lock()

    async def ask(self, task: Task[Result]) -> Answer[Result] | Refusal:
        """Do a task."""
        return await asyncio.to_thread(self._ask, task)

    def _ask(self, task: Task[Result]) -> Answer[Result] | Refusal:
        opened = self._at_newest()
        try:
            return answer(opened.searcher, task)
        except REFUSED as error:
            return Refusal(error)
        finally:
            opened.close()

    def _at_newest(self) -> Shared:
        """The searcher of the newest commit, with one user more."""
        with self._lock:
            newest = newest_commit(self._folder / LUCENE)
            if newest is not None and newest.name != self._newest:
                found = self._open.searcher.refreshed()
                if found is not None:
                    self._open.close()
                    self._open = Shared(found)
                self._newest = newest.name
            return self._open.shared()


class ShardWriter:
    """Writes to a shard; there is one of it, which Ray starts again if it ends.

    Args:
        served: the index.
        number: of the shard.
        models: that the index was built with.
    """

    def __init__(self, served: Served, number: int, models: Sequence[str]) -> None:
        self._writing = Writing(shard_folder(served, number), models, Board(1))
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


class Root:
    """Stands for the application of an index, whose deployments it is bound to.

    Args:
        parts: handles of them.
    """

    def __init__(self, *parts: Any) -> None: ...
