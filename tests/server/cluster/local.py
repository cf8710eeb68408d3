"""A cluster in this process: handles that call the replicas directly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from server.cluster.names import Served
from server.cluster.replica import ShardReplica
from server.cluster.shard_writer import ShardWriter
from sparta import extras


class ReplicaDiedError(Exception):
    """What Ray raises for a replica that has gone."""


class Response:
    """What a handle returns: to be waited for, in an event loop or outside of one."""

    def __init__(self, task: Callable[[], Any]) -> None:
        self._task = task

    def result(self, timeout_s: float) -> Any:
        assert timeout_s > 0
        return asyncio.run(self._task())

    def __await__(self) -> Any:
        return self._task().__await__()

    def cancel(self) -> None:
        """Nothing runs."""


class Handle:
    """Of a deployment in this process; `failures` are raised first, one a call."""

    def __init__(self, replica: Any) -> None:
        self._replica = replica
        self.failures: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: Response(self._call(name, arguments)))

    def _call(self, name: str, arguments: Any) -> Callable[[], Any]:
        async def call() -> Any:
            if self.failures:
                raise self.failures.pop(0)
            return await getattr(self._replica, name)(*arguments)

        return call


class LocalCluster:
    """All deployments of an index; stands for `ray.serve`."""

    def __init__(self, index: Path) -> None:
        self.served = Served.of(index)
        self.handles: dict[str, Handle] = {}
        for number in range(self.served.shards):
            replica = ShardReplica(self.served, number)
            self.handles[f"shard-{number:03d}"] = Handle(replica)
            writer = ShardWriter(self.served, number, ["photos"])
            self.handles[f"writer-{number:03d}"] = Handle(writer)

    def get_deployment_handle(self, name: str, application: str) -> Handle:
        assert application == self.served.application
        return self.handles[name]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let modules of the server find this in place of Ray."""
        modules: dict[str, Any] = {
            "ray.serve": self,
            "ray.exceptions": SimpleNamespace(RayError=ReplicaDiedError, RayTaskError=KeyError),
            "ray.serve.exceptions": SimpleNamespace(RayServeException=ConnectionError),
        }
        patch.setattr(extras, "import_module", modules.__getitem__)
