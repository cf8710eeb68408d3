"""The server's application on a cluster: the one of a single machine, over remote shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI

from indexer.dense.manifest import SPARSE
from indexer.search.api import UnavailableError
from indexer.search.sharded.asking import Asking
from indexer.search.sharded.open import read_language
from indexer.search.sharded.searcher import ShardedSearcher
from indexer.search.sharded.shards import Answer, ShardsMissingError
from indexer.search.sharded.tasks import Task
from indexer.shards import index_folders
from indexer.state import IndexState
from indexer.store.commit import Commit
from server.app import create_app
from server.backends import Backend, Backends
from server.cluster.names import Served, shard_deployment
from server.cluster.replica import Refusal
from server.cluster.writers import ClusterForwarder
from server.settings import ServerSettings
from sparta.extras import require

Result = TypeVar("Result")
SECONDS = 10.0  # that a shard has to answer, and Ray to find a replica that does
PARTIAL_SECONDS = 1.0  # the same where an answer without it will do
TRY_SECONDS = 3.0  # for one replica, before another one is tried
PAUSE = 0.05  # seconds before the next try


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


class RemoteShards:
    """The shards of an index on the cluster; see `indexer.search.sharded.shards.Shards`.

    Args:
        served: the index.
    """

    def __init__(self, served: Served) -> None:
        serve = require("ray.serve")
        self._replicas: Sequence[Any] = [
            serve.get_deployment_handle(shard_deployment(number), served.application).ask
            for number in range(served.shards)
        ]
        # What Ray raises when a replica, its machine or all of them are gone.
        self._gone: tuple[type[Exception], ...] = (
            require("ray.exceptions").RayError,
            require("ray.serve.exceptions").RayServeException,
            TimeoutError,
        )

    def __len__(self) -> int:
        return len(self._replicas)

    def ask(self, tasks: Mapping[int, Task[Result]]) -> dict[int, Answer[Result]]:
        """The answers of some shards; see `Shards`."""
        answers, missing = self.ask_those_there(tasks, SECONDS)
        if missing:
            raise ShardsMissingError(missing)
        return answers

    def ask_those_there(
        self, tasks: Mapping[int, Task[Result]], seconds: float | None = None
    ) -> tuple[dict[int, Answer[Result]], list[int]]:
        """The answers of those shards that answer in time, and the numbers of the others."""
        end = time.monotonic() + (PARTIAL_SECONDS if seconds is None else seconds)
        waiting = {number: self._send(number, task) for number, task in tasks.items()}
        answers: dict[int, Answer[Result]] = {}
        missing = []
        for number, task in tasks.items():
            found = self._answer(number, task, waiting[number], end)
            if found is None:
                missing.append(number)
            elif isinstance(found, Refusal):
                raise found.error
            else:
                answers[number] = found
        return answers, missing

    def _send(self, number: int, task: Task[Any]) -> Any:
        return self._replicas[number].remote(task)

    def _answer(self, number: int, task: Task[Any], response: Any, end: float) -> Any:
        """What a replica of the shard answers; None if none does in time."""
        task_error = require("ray.exceptions").RayTaskError
        while True:
            left = end - time.monotonic()
            try:
                return response.result(timeout_s=max(0.001, min(TRY_SECONDS, left)))
            except task_error:
                raise  # a fault of the program, which another replica has as well
            except self._gone:
                response.cancel()
                if left <= PAUSE:
                    return None
                time.sleep(PAUSE)
                response = self._send(number, task)

    def close(self) -> None:
        """Nothing: shards go on."""
