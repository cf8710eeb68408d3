"""Each test of `connect` runs over both clients, which it uses as if both were `Client`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

import sparta

Handler = Callable[[httpx.Request], httpx.Response]
Connect = Callable[..., Any]


class Blocking:
    """An `AsyncClient` whose methods wait for their answers, as those of `Client` do."""

    def __init__(self, client: sparta.AsyncClient, call: Callable[..., Any]) -> None:
        self._client, self._call = client, call

    def __getattr__(self, name: str) -> Any:
        async def answer(arguments: Any, options: Any) -> Any:
            return await getattr(self._client, name)(*arguments, **options)

        return lambda *arguments, **options: self._call(answer, arguments, options)


@pytest.fixture(params=["sync", "async"])
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Makes clients of one kind, whose requests a handler answers if one is given."""
    with ExitStack() as stack:

        def connected(
            servers: str | Sequence[str], handler: Handler | None = None, **options: Any
        ) -> Any:
            if handler is not None:
                options["transport"] = httpx.MockTransport(handler)
            if request.param == "sync":
                return stack.enter_context(sparta.Client(servers, **options))
            portal = stack.enter_context(start_blocking_portal())
            client = sparta.AsyncClient(servers, **options)
            stack.enter_context(portal.wrap_async_context_manager(client))
            return Blocking(client, portal.call)

        yield connected
