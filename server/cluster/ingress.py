"""The server's application on a cluster: the one of a single machine, over remote shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from fastapi import FastAPI

from indexer.dense.manifest import SPARSE
from indexer.engines.open import read_language
from indexer.engines.shards import Question, ShardsEngine
from indexer.search.searcher import Searcher
from indexer.shards import index_folders
from indexer.state import IndexState
from server.app import create_app
from server.backends import Backend, Backends, photos_of
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


def open_remote(settings: ServerSettings, served: Served) -> Backends:
    """The backends over the shards of an index on this cluster.

    Raises:
        InputError: if the folder is not on this machine, or is another index.
        UnavailableError: if a shard does not answer.
    """
    index = Path(served.folder)
    engine = ShardsEngine(RemoteShards(served))
    searcher = Searcher(engine, read_language(index), lenient=engine.lenient)
    searcher.warm_up()
    state = IndexState.read(index)
    backend = Backend(
        SPARSE,
        searcher,
        photos_of(settings, state),
        settings.examples,
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
    """The shards of an index on the cluster, each at its newest commit; see `Shards`.

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

    def ask(
        self, questions: Mapping[int, Question[Result]], lenient: bool
    ) -> tuple[dict[int, Result], list[int]]:
        """The answers of those shards that answer in time, and the numbers of the others."""
        end = time.monotonic() + (PARTIAL_SECONDS if lenient else SECONDS)
        waiting = {number: self._send(number, question) for number, question in questions.items()}
        answers: dict[int, Result] = {}
        missing = []
        for number, question in questions.items():
            found = self._answer(number, question, waiting[number], end)
            if found is None:
                missing.append(number)
            elif isinstance(found, Refusal):
                raise found.error
            else:
                answers[number] = found
        return answers, missing

    def _send(self, number: int, question: Question[Any]) -> Any:
        return self._replicas[number].remote(question)

    def _answer(self, number: int, question: Question[Any], response: Any, end: float) -> Any:
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
                response = self._send(number, question)

    def refreshed(self) -> None:
        """Nothing: shards follow their commits by themselves."""

    def close(self) -> None:
        """Nothing: shards go on."""
