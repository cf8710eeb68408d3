"""What writes to a shard on a cluster; there is one of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import httpx

from server.cluster.names import Served
from server.cluster.replica import shard_folder
from server.writing.app import Writing, create_app
from server.writing.board import Board


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
