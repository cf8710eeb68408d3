"""What searches a shard on a cluster; the replicas of a shard are all alike."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from indexer.search.api import UnknownImageError
from indexer.search.open import open_index
from indexer.search.sharded.shards import Answer, Shared, answer
from indexer.search.sharded.tasks import Task
from indexer.shards import index_folders
from indexer.state import index_version
from indexer.store.commit import commit_content
from server.cluster.names import Served
from sparta.errors import InputError

Result = TypeVar("Result")

REFUSED = (InputError, UnknownImageError, TypeError, ValueError)


class Refusal(NamedTuple):
    """A task that cannot be done, on any replica.

    Attributes:
        error: to be raised by who asked.
    """

    error: Exception


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
        searcher.prepare_explaining()
        self._open = Shared(searcher)
        self._newest = b""
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
            newest = commit_content(self._folder)
            if newest != self._newest:
                found = self._open.searcher.refreshed()
                if found is not None:
                    self._open.close()
                    self._open = Shared(found)
                self._newest = newest
            return self._open.shared()
