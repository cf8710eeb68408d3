"""Shards and writers that run on a cluster, as searchers and servers use them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from indexer.search.sharded.shards import Answer, ShardsMissingError
from indexer.search.sharded.tasks import Task
from server.cluster.names import Served, shard_deployment
from server.cluster.replica import Refusal
from sparta.extras import require

Result = TypeVar("Result")

SECONDS = 10.0  # that a shard has to answer, and Ray to find a replica that does
PARTIAL_SECONDS = 1.0  # the same where an answer without it will do
TRY_SECONDS = 3.0  # for one replica, before another one is tried
PAUSE = 0.05  # seconds before the next try


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
