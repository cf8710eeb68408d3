"""The clients of a server: `Client` for most programs, `AsyncClient` for those with an event loop.

Their methods are those of `server.client.operations.Operations`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Self

import anyio
import httpx

from server.client.operations import Answer, Awaited, Operation, Waiting
from server.client.transport import RETRIES, TIMEOUT, Attempts, Outcome, Servers, options


class Client(Waiting):
    """Searches photos on a server; usable by several threads at once.

    Requests that a server refuses for the moment (429, 503), or does not answer, are repeated: on
    another server at once, on the same one after a pause. Close the client at the end, or use it in
    a `with` statement.

    Args:
        servers: address of the server, such as `http://127.0.0.1:8000`, or of several servers of
            the same index, which are asked in turn.
        api_key: sent with every request, to every server.
        timeout: seconds without a byte from the server until an attempt has failed.
        retries: attempts after the first one.
        transport: of httpx, for programs that have one of their own.

    Raises:
        InputError: if an address is not one of HTTP.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._servers = Servers(servers)
        self._retries = retries
        self._http = httpx.Client(transport=transport, **options(api_key, timeout))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, operation: Operation[Answer]) -> Answer:
        attempts = Attempts(self._servers, self._retries)
        while True:
            server = attempts.server.url
            try:
                outcome: Outcome = self._http.send(operation.request(self._http, server))
            except httpx.TransportError as error:
                outcome = error
            pause = attempts.pause_after(outcome)
            if pause is None:
                return operation.answer(outcome, server)
            time.sleep(pause)


class AsyncClient(Awaited):
    """Searches photos on a server, from an event loop of asyncio or Trio.

    Arguments, methods, answers and errors are those of `Client`. Close it with `aclose`, or use it
    in an `async with` statement.

    Raises:
        InputError: if an address is not one of HTTP.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        *,
        api_key: str | None = None,
        timeout: float = TIMEOUT,
        retries: int = RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._servers = Servers(servers)
        self._retries = retries
        self._http = httpx.AsyncClient(transport=transport, **options(api_key, timeout))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _get(self, operation: Operation[Answer]) -> Answer:
        attempts = Attempts(self._servers, self._retries)
        while True:
            server = attempts.server.url
            try:
                outcome: Outcome = await self._http.send(operation.request(self._http, server))
            except httpx.TransportError as error:
                outcome = error
            pause = attempts.pause_after(outcome)
            if pause is None:
                return operation.answer(outcome, server)
            await anyio.sleep(pause)
