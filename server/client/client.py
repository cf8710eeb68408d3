"""The client for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

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

    def search(
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
        """The k best photos for a text.

        Args:
            query: any text, with `+beach`, `-dog` and `beach^3` where a sentence is not enough;
                without words, all photos that the filter lets through are found.
            k: hits at most.
            explain: whether each hit has its score term by term.
            substitute: whether words that the index lacks are replaced by the nearest trained ones.
            min_coverage: of a hit: the share, 0 to 1, of the query's weight that belongs to words
                which the photo has.
            backend: name of a backend; by default the server's first one.
            filter: photos that may be found, as text or as JSON.
            offset: hits before the first one.
            sort: a field to sort all matching photos by, with "-" before it for the largest first.
            facets: fields of which to count the values over all matching photos.
            cursor: of an answer to the same search, for the hits after those of the answer.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(
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

    def search_several(self, searches: Sequence[Mapping[str, Any]]) -> list[SearchAnswer]:
        """The answers to up to 32 searches, by one request and of one state of the index.

        Args:
            searches: each with the fields of `POST /v1/search`, such as `{"q": "two dogs"}`.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(operations.search_several(searches))

    def suggest(self, query: str, k: int = 10) -> list[SuggestionAnswer]:
        """Queries whose last word is completed to words of the index, the most frequent first.

        Args:
            query: as far as it is typed.
            k: suggestions at most.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(operations.suggest(query, k))

    def count(
        self,
        filter: Filter | None = None,
        *,
        backend: str | None = None,
    ) -> CountAnswer:
        """How many images a filter, as text or as JSON, lets through; all without one.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(operations.count(filter, backend))

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str = "",
        explain: bool = False,
        backend: str | None = None,
        filter: str | None = None,
    ) -> SimilarAnswer:
        """The k photos most similar to an indexed one, or to several, without these.

        Args:
            image_id: of the indexed one, or of up to 20.
            k: hits at most.
            words: a query that the photos should fit as well; it may only exclude.
            explain: whether each hit has its score term by term.
            backend: name of a backend; by default the server's first one.
            filter: photos that may be found, as text.

        Raises:
            ClientError: if the request fails, as with status 404 for an unknown image.
        """
        return self._get(operations.similar(image_id, k, words, explain, backend, filter))

    def similar_to_photo(
        self, photo: bytes, k: int = 10, *, explain: bool = False, filter: str | None = None
    ) -> PhotoSearchAnswer:
        """The k photos most similar to one that is sent, which the server does not keep.

        Args:
            photo: the bytes of its file.
            k: hits at most.
            explain: whether each hit has its score term by term.
            filter: photos that may be found, as text.

        Raises:
            ClientError: if the request fails, as with status 422 for what is no photo.
        """
        return self._get(operations.similar_to_photo(photo, k, explain, filter))

    def explain(
        self, query: str, image_id: str, *, substitute: bool = True, backend: str | None = None
    ) -> ExplanationAnswer:
        """The score of one image for a text, term by term.

        Raises:
            ClientError: if the request fails, as with status 404 for an unknown image.
        """
        return self._get(operations.explain(query, image_id, substitute, backend))

    def get_image(self, image_id: str, *, backend: str | None = None) -> ImageAnswer:
        """What the index stores about an image.

        Raises:
            ClientError: if the request fails, as with status 404 for an unknown image.
        """
        return self._get(operations.get_image(image_id, backend))

    def get_photo(self, image_id: str, *, backend: str | None = None) -> Photo:
        """The file of an indexed photo.

        Raises:
            ClientError: if the request fails, as with status 404 for a missing file.
        """
        return self._get(operations.get_photo(image_id, backend))

    def get_thumbnail(self, image_id: str, size: int = 256, *, backend: str | None = None) -> Photo:
        """A small picture of an indexed photo, as JPEG.

        Args:
            image_id: of the photo.
            size: pixels of the longer side at most: 256 or 512.
            backend: name of a backend; by default the server's first one.

        Raises:
            ClientError: if the request fails, as with status 404 for a missing file.
        """
        return self._get(operations.get_thumbnail(image_id, size, backend))

    def list_fields(self, *, backend: str | None = None) -> dict[str, str]:
        """The fields that filters, facets and orders may name, with their kinds.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(operations.list_fields(backend))

    def list_backends(self) -> list[BackendInfo]:
        """The backends of the server, the default one first.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(operations.list_backends())

    def put_photo(self, image_id: str, photo: bytes, *, refresh: Refresh = "wait") -> WriteAnswer:
        """Add a photo, or put it in the place of the one with this id.

        Args:
            image_id: usually a path such as "beach/two dogs.jpg".
            photo: the content of the file, which the server keeps.
            refresh: "wait" until searches find it, or "none".

        Raises:
            ClientError: if the request fails, as for a file that is no photo.
        """
        return self._get(changes.put_photo(image_id, photo, refresh))

    def put_image(
        self,
        image_id: str,
        *,
        terms: Mapping[str, float] | None = None,
        features: Mapping[str, Any] | None = None,
        metadata: Fields | None = None,
        refresh: Refresh = "wait",
    ) -> WriteAnswer:
        """Add an image whose terms or features are known, or replace the one with this id.

        Args:
            image_id: of the image.
            terms: term → its score above the term's offset.
            features: as `PUT /v1/images/{image_id}` describes them; terms or features, not both.
            metadata: of the image.
            refresh: "wait" until searches find it, or "none".

        Raises:
            ClientError: if the request fails.
        """
        given = {"terms": terms, "features": features, "metadata": metadata}
        parts = {name: part for name, part in given.items() if part is not None}
        return self._get(changes.put_image(image_id, parts, refresh))

    def update_image(
        self, image_id: str, metadata: Fields, *, refresh: Refresh = "wait"
    ) -> WriteAnswer:
        """Change some fields of an image's metadata; None removes a field.

        Raises:
            ClientError: if the request fails, as with status 404 for an unknown image.
        """
        return self._get(changes.update_image(image_id, metadata, refresh))

    def delete_image(self, image_id: str, *, refresh: Refresh = "wait") -> WriteAnswer:
        """Delete an image; its file stays where it is.

        Raises:
            ClientError: if the request fails, as with status 404 for an unknown image.
        """
        return self._get(changes.delete_image(image_id, refresh))

    def delete_images(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,
        refresh: Refresh = "wait",
    ) -> DeleteAnswer:
        """Delete images by their ids, or those that a filter lets through.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(changes.delete_images(ids, filter, refresh))

    def write_batch(
        self, lines: Iterable[Mapping[str, Any]], *, refresh: Refresh = "wait"
    ) -> BatchAnswer:
        """Add, replace, change and delete many images in one request.

        Args:
            lines: each with `image_id` and one of `terms`, `features`, `photo` (base64), `metadata`
                and `delete`.
            refresh: "wait" until searches find the changes, or "none".

        Returns:
            counts, and the lines that could not be written.

        Raises:
            ClientError: if the request fails.
        """
        return self._get(changes.write_batch(lines, refresh))

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

    def _send(self, request: httpx.Request) -> httpx.Response | httpx.TransportError:
        try:
            return self._http.send(request)
        except httpx.TransportError as error:
            return error
