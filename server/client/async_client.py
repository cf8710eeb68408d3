"""The client for programs with an event loop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import anyio
import httpx

from server.client import changes, operations
from server.client.attempts import Attempts
from server.client.changes import Fields, Refresh
from server.client.operations import Answer, Filter, Operation, Photo
from server.client.options import RETRIES, TIMEOUT, options
from server.client.servers import Servers
from server.schemas import (
    BackendInfo,
    BatchAnswer,
    CountAnswer,
    DeleteAnswer,
    ExplanationAnswer,
    ImageAnswer,
    PhotoSearchAnswer,
    SearchAnswer,
    SimilarAnswer,
    SuggestionAnswer,
    WriteAnswer,
)


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

    async def search(
        self,
        query: str = "",
        k: int = 10,
        *,
        explain: bool = False,
        substitute: bool = True,
        min_coverage: float | None = None,
        backend: str | None = None,
        filter: Filter | None = None,
        offset: int = 0,
        sort: str | None = None,
        facets: Sequence[str] = (),
        cursor: str | None = None,
    ) -> SearchAnswer:
        """See `Client.search`."""
        return await self._get(
            operations.search(
                query,
                k,
                explain,
                substitute,
                backend,
                filter,
                offset,
                sort,
                facets,
                min_coverage,
                cursor,
            )
        )

    async def search_several(self, searches: Sequence[Mapping[str, Any]]) -> list[SearchAnswer]:
        """See `Client.search_several`."""
        return await self._get(operations.search_several(searches))

    async def count(
        self,
        filter: Filter | None = None,
        *,
        backend: str | None = None,
    ) -> CountAnswer:
        """See `Client.count`."""
        return await self._get(operations.count(filter, backend))

    async def suggest(self, query: str, k: int = 10) -> list[SuggestionAnswer]:
        """See `Client.suggest`."""
        return await self._get(operations.suggest(query, k))

    async def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str = "",
        explain: bool = False,
        backend: str | None = None,
        filter: str | None = None,
    ) -> SimilarAnswer:
        """See `Client.similar`."""
        return await self._get(operations.similar(image_id, k, words, explain, backend, filter))

    async def similar_to_photo(
        self, photo: bytes, k: int = 10, *, explain: bool = False, filter: str | None = None
    ) -> PhotoSearchAnswer:
        """See `Client.similar_to_photo`."""
        return await self._get(operations.similar_to_photo(photo, k, explain, filter))

    async def explain(
        self, query: str, image_id: str, *, substitute: bool = True, backend: str | None = None
    ) -> ExplanationAnswer:
        """See `Client.explain`."""
        return await self._get(operations.explain(query, image_id, substitute, backend))

    async def get_image(self, image_id: str, *, backend: str | None = None) -> ImageAnswer:
        """See `Client.get_image`."""
        return await self._get(operations.get_image(image_id, backend))

    async def get_photo(self, image_id: str, *, backend: str | None = None) -> Photo:
        """See `Client.get_photo`."""
        return await self._get(operations.get_photo(image_id, backend))

    async def get_thumbnail(
        self, image_id: str, size: int = 256, *, backend: str | None = None
    ) -> Photo:
        """See `Client.get_thumbnail`."""
        return await self._get(operations.get_thumbnail(image_id, size, backend))

    async def list_fields(self, *, backend: str | None = None) -> dict[str, str]:
        """See `Client.list_fields`."""
        return await self._get(operations.list_fields(backend))

    async def list_backends(self) -> list[BackendInfo]:
        """See `Client.list_backends`."""
        return await self._get(operations.list_backends())

    async def put_photo(
        self, image_id: str, photo: bytes, *, refresh: Refresh = "wait"
    ) -> WriteAnswer:
        """See `Client.put_photo`."""
        return await self._get(changes.put_photo(image_id, photo, refresh))

    async def put_image(
        self,
        image_id: str,
        *,
        terms: Mapping[str, float] | None = None,
        features: Mapping[str, Any] | None = None,
        metadata: Fields | None = None,
        refresh: Refresh = "wait",
    ) -> WriteAnswer:
        """See `Client.put_image`."""
        given = {"terms": terms, "features": features, "metadata": metadata}
        parts = {name: part for name, part in given.items() if part is not None}
        return await self._get(changes.put_image(image_id, parts, refresh))

    async def update_image(
        self, image_id: str, metadata: Fields, *, refresh: Refresh = "wait"
    ) -> WriteAnswer:
        """See `Client.update_image`."""
        return await self._get(changes.update_image(image_id, metadata, refresh))

    async def delete_image(self, image_id: str, *, refresh: Refresh = "wait") -> WriteAnswer:
        """See `Client.delete_image`."""
        return await self._get(changes.delete_image(image_id, refresh))

    async def delete_images(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,
        refresh: Refresh = "wait",
    ) -> DeleteAnswer:
        """See `Client.delete_images`."""
        return await self._get(changes.delete_images(ids, filter, refresh))

    async def write_batch(
        self, lines: Iterable[Mapping[str, Any]], *, refresh: Refresh = "wait"
    ) -> BatchAnswer:
        """See `Client.write_batch`."""
        return await self._get(changes.write_batch(lines, refresh))

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

    async def _send(self, request: httpx.Request) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.send(request)
        except httpx.TransportError as error:
            return error
