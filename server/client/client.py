"""The clients of a server: `Client` for most programs, `AsyncClient` for those with an event loop.

Their methods come from the functions of `server.client.operations`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, get_args, get_type_hints

import anyio
import httpx

from server.client import operations
from server.client.operations import Answer, Operation
from server.client.transport import RETRIES, TIMEOUT, Attempts, Outcome, Servers, options

P = ParamSpec("P")
Method = TypeVar("Method", bound=Callable[..., Any])


def _waiting(describe: Callable[P, Operation[Answer]]) -> Callable[Concatenate[Client, P], Answer]:
    """The method of `Client` for an operation."""

    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        return self._get(describe(*args, **kwargs))

    return _documented(method, describe)


def _awaited(
    describe: Callable[P, Operation[Answer]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Answer]]:
    """The method of `AsyncClient` for an operation."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        return await self._get(describe(*args, **kwargs))

    return _documented(method, describe)


def _documented(method: Method, describe: Callable[..., Operation[Any]]) -> Method:
    """Give a method the name, docstring and signature that `help` and notebooks show."""
    signature = inspect.signature(describe)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    [answer] = get_args(get_type_hints(describe)["return"])
    update_wrapper(method, describe, assigned=("__name__", "__doc__"))
    vars(method)["__signature__"] = signature.replace(
        parameters=[own, *signature.parameters.values()], return_annotation=answer
    )
    return method


class Client:
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

    search = _waiting(operations.search)
    search_several = _waiting(operations.search_several)
    suggest = _waiting(operations.suggest)
    count = _waiting(operations.count)
    similar = _waiting(operations.similar)
    similar_to_photo = _waiting(operations.similar_to_photo)
    explain = _waiting(operations.explain)
    get_image = _waiting(operations.get_image)
    get_photo = _waiting(operations.get_photo)
    get_thumbnail = _waiting(operations.get_thumbnail)
    list_fields = _waiting(operations.list_fields)
    list_backends = _waiting(operations.list_backends)
    put_photo = _waiting(operations.put_photo)
    put_image = _waiting(operations.put_image)
    update_image = _waiting(operations.update_image)
    delete_image = _waiting(operations.delete_image)
    delete_images = _waiting(operations.delete_images)
    write_batch = _waiting(operations.write_batch)

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
            outcome = self._send(operation.request(self._http, server))
            pause = attempts.pause_after(outcome)
            if pause is None:
                return operation.answer(outcome, server)
            time.sleep(pause)

    def _send(self, request: httpx.Request) -> Outcome:
        try:
            return self._http.send(request)
        except httpx.TransportError as error:
            return error


class AsyncClient:
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

    search = _awaited(operations.search)
    search_several = _awaited(operations.search_several)
    suggest = _awaited(operations.suggest)
    count = _awaited(operations.count)
    similar = _awaited(operations.similar)
    similar_to_photo = _awaited(operations.similar_to_photo)
    explain = _awaited(operations.explain)
    get_image = _awaited(operations.get_image)
    get_photo = _awaited(operations.get_photo)
    get_thumbnail = _awaited(operations.get_thumbnail)
    list_fields = _awaited(operations.list_fields)
    list_backends = _awaited(operations.list_backends)
    put_photo = _awaited(operations.put_photo)
    put_image = _awaited(operations.put_image)
    update_image = _awaited(operations.update_image)
    delete_image = _awaited(operations.delete_image)
    delete_images = _awaited(operations.delete_images)
    write_batch = _awaited(operations.write_batch)

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
            outcome = await self._send(operation.request(self._http, server))
            pause = attempts.pause_after(outcome)
            if pause is None:
                return operation.answer(outcome, server)
            await anyio.sleep(pause)

    async def _send(self, request: httpx.Request) -> Outcome:
        try:
            return await self._http.send(request)
        except httpx.TransportError as error:
            return error
