"""What searches a shard on a cluster; the replicas of a shard are all alike."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from indexer.engines.open import open_index
from indexer.engines.shards import Question
from indexer.search.engine import Engine
from indexer.shards import index_folders
from indexer.state import index_version
from indexer.store.commit import ReplacedError
from indexer.store.images import UnknownImageError
from server.cluster.names import Served
from sparta.errors import InputError

Result = TypeVar("Result")

REFUSED = (InputError, UnknownImageError, TypeError, ValueError)


class Refusal(NamedTuple):
    """A question that cannot be answered, on any replica.

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
    """Searches a shard; every question is answered at the newest commit.

    Args:
        served: the index.
        number: of the shard.
    """

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
