"""Both clients under one interface, so that one test runs with each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
from anyio.from_thread import start_blocking_portal

from server.client.async_client import AsyncClient
from server.client.client import Client

Handler = Callable[[httpx.Request], httpx.Response]


class Blocking:
    """An `AsyncClient` whose methods wait for their answers, as those of `Client` do."""

    def __init__(self, client: AsyncClient, call: Callable[..., Any]) -> None:
        self._client, self._call = client, call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def answer(*arguments: Any, **options: Any) -> Any:
            return await method(*arguments, **options)

        return lambda *arguments, **options: self._call(lambda: answer(*arguments, **options))


@contextmanager
def connected(
    kind: str, servers: str | Sequence[str], handler: Handler | None = None, **options: Any
) -> Iterator[Any]:
    """A client of one kind, "sync" or "async", whose requests a handler answers if there is one."""
    if handler is not None:
        options["transport"] = httpx.MockTransport(handler)
    if kind == "sync":
        with Client(servers, **options) as client:
            yield client
        return
    with start_blocking_portal() as portal:

        async def close() -> None:
            async with asynchronous:
                pass

        asynchronous = AsyncClient(servers, **options)
        yield Blocking(asynchronous, portal.call)
        portal.call(close)
