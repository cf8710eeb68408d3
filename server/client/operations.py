"""The operations of the REST interface: what each method of the clients sends, and how it reads.

`Operations` describes each operation once. From the description `Client` gets a method that sends
the request and returns the typed answer, and `AsyncClient` a coroutine that does.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, update_wrapper
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter

from server import schemas
from server.client.answers import Explanation, Photo, SearchAnswer, SimilarAnswer
from server.client.transport import ClientError, NotSentError, Outcome, answered
from sparta.addresses import id_problem
from sparta.json_values import Json, JsonMapping

P = ParamSpec("P")
Answer = TypeVar("Answer")
Kind = TypeVar("Kind")
Params = Mapping[str, str | float | bool | Sequence[str] | None]
Filter = str | JsonMapping  # as text or as JSON
Refresh = Literal["wait", "none"]

PHOTO = "application/octet-stream"  # media type of a photo of any kind
LINES = "application/x-ndjson"
RAISES = "\n\nRaises:\n    ClientError: if the request fails."

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


@dataclass(frozen=True)
class Operation(Generic[Answer]):
    """A request, and how its answer is read."""

    method: str  # of HTTP
    path: str  # below the address of the server
    # Makes the typed answer; raises ValueError if the response is not one
    read: Callable[[httpx.Response], Answer]
    params: Params = field(default_factory=dict)  # of the query; None for those that are left out
    body: JsonMapping | None = None  # sent as JSON; None for none
    # Bytes sent in place of a body, and their media type; None for none
    content: tuple[bytes, str] | None = None

    def request(self, client: httpx.Client | httpx.AsyncClient, server: str) -> httpx.Request:
        """The request for one server."""
        params = {name: value for name, value in self.params.items() if value is not None}
        content, media_type = self.content or (None, None)
        headers = {"Content-Type": media_type} if media_type else None
        return client.build_request(
            self.method,
            server + self.path,
            params=params,
            json=self.body,
            content=content,
            headers=headers,
        )

    def answer(self, outcome: Outcome, server: str) -> Answer:
        """The answer to the last attempt.

        Raises:
            ClientError: if it is an error, or not the answer of a VisualSparta server.
        """
        if isinstance(outcome, httpx.TransportError):
            raise ClientError(f"{server} does not answer: {str(outcome) or type(outcome).__name__}")
        if outcome.is_error:
            raise answered(outcome)
        try:
            found = self.read(outcome)
        except ValueError as error:
            raise ClientError(
                f"{outcome.url.copy_with(query=None)} does not answer as a VisualSparta server: "
                "check the address, and that client and server have the same version"
            ) from error
        if isinstance(found, SearchAnswer):
            found.picture = lambda image_id: f"{server}{_image_path(image_id)}/thumbnail"
        return found


class described(Generic[P, Answer]):  # a decorator
    """Describes a method of both clients by a function that returns its `Operation`."""

    def __init__(self, describe: Callable[Concatenate[Operations, P], Operation[Answer]]) -> None:
        self.describe = describe

    if TYPE_CHECKING:  # `Operations.__init_subclass__` puts functions in place of this

        @overload
        def __get__(self, client: Waiting, owner: type) -> Callable[P, Answer]: ...
        @overload
        def __get__(
            self, client: Awaited, owner: type
        ) -> Callable[P, Coroutine[None, None, Answer]]: ...
        def __get__(self, client: Operations, owner: type) -> object: ...

    def method(self, awaited: bool) -> Callable[..., object]:
        """The method, with the name, docstring and signature that `help` and notebooks show."""
        describe = self.describe

        def wait(client: Waiting, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
            return client._get(describe(client, *args, **kwargs))

        async def wait_for(client: Awaited, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
            return await client._get(describe(client, *args, **kwargs))

        made: Callable[..., object] = wait_for if awaited else wait
        update_wrapper(made, describe, assigned=("__name__", "__doc__"))
        made.__doc__ = (inspect.getdoc(describe) or "") + RAISES
        [answer] = get_args(get_type_hints(describe)["return"])
        signature = inspect.signature(describe).replace(return_annotation=answer)
        vars(made)["__signature__"] = signature
        return made


class Operations:
    """The operations of both clients. Each raises `ClientError` if its request fails."""

    _awaited = False

    def __init_subclass__(cls) -> None:
        """Make methods of the descriptions, once for each of the two kinds of clients."""
        for name, one in vars(Operations).items():
            if isinstance(one, described) and Operations in cls.__bases__:
                setattr(cls, name, one.method(cls._awaited))

    @described
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
        rerank: int = 0,
    ) -> Operation[SearchAnswer]:
        """The k best photos for a text.

        Args:
            query: any text, with `+beach`, `-dog` and `beach^3` where a sentence is not enough;
                without words, all photos that the filter lets through are found.
            k: maximum number of hits.
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
            rerank: first hits to order by the similarity of text and photo, where the index has
                photos' vectors.
        """
        params: dict[str, str | float | bool | None] = {
            "q": query or None,
            "k": k,
            "explain": explain,
            "substitute": substitute,
            "min_coverage": min_coverage,
            "backend": backend,
            "offset": offset or None,
            "cursor": cursor,
            "sort": sort,
            "rerank": rerank or None,
        }
        read = _reader(SearchAnswer)
        if filter is None or isinstance(filter, str):
            params |= {"filter": filter, "facets": ",".join(facets) or None}
            return Operation("GET", "/v1/search", read, params)
        body = {name: value for name, value in params.items() if value is not None}
        return Operation(
            "POST", "/v1/search", read, body={**body, "filter": filter, "facets": list(facets)}
        )

    @described
    def search_several(self, searches: Sequence[JsonMapping]) -> Operation[list[SearchAnswer]]:
        """The answers to up to 32 searches, by one request and of one state of the index.

        Args:
            searches: each with the fields of `POST /v1/search`, such as `{"q": "two dogs"}`.
        """
        read = _reader(dict[Literal["answers"], list[SearchAnswer]])
        body = {"queries": list(searches)}
        return Operation(
            "POST", "/v1/search", lambda response: read(response)["answers"], body=body
        )

    @described
    def suggest(self, query: str, k: int = 10) -> Operation[list[schemas.SuggestionAnswer]]:
        """Queries whose last word is completed to words of the index, the most frequent first.

        Args:
            query: as far as it is typed.
            k: maximum number of suggestions.
        """
        read = _reader(schemas.SuggestAnswer)
        params: Params = {"q": query, "k": k}
        return Operation("GET", "/v1/suggest", lambda response: read(response).suggestions, params)

    @described
    def count(self, filter: Filter | None = None, *, backend: str | None = None) -> Operation[int]:
        """How many images a filter, as text or as JSON, lets through; all without one."""
        read, body = _reader(schemas.CountAnswer), {"filter": filter, "backend": backend}
        return Operation("POST", "/v1/images/count", lambda found: read(found).count, body=body)

    @described
    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str = "",
        explain: bool = False,
        backend: str | None = None,
        filter: str | None = None,
    ) -> Operation[SimilarAnswer]:
        """The k photos most similar to an indexed one, or to several, without these.

        Args:
            image_id: of the indexed one, or of up to 20.
            k: maximum number of hits.
            words: a query that the photos should fit as well; it may only exclude.
            explain: whether each hit has its score term by term.
            backend: name of a backend; by default the server's first one.
            filter: photos that may be found, as text.
        """
        first, *also = [image_id] if isinstance(image_id, str) else image_id
        params: Params = {
            "also": also,
            "q": words,
            "k": k,
            "explain": explain,
            "backend": backend,
            "filter": filter,
        }
        read = _reader(SimilarAnswer)
        return Operation("GET", f"{_image_path(first)}/similar", read, params)

    @described
    def similar_to_photo(
        self, photo: bytes, k: int = 10, *, explain: bool = False, filter: str | None = None
    ) -> Operation[SearchAnswer]:
        """The k photos most similar to one that is sent, which the server does not keep.

        Args:
            photo: the bytes of its file.
            k: maximum number of hits.
            explain: whether each hit has its score term by term.
            filter: photos that may be found, as text.
        """
        params: Params = {"k": k, "explain": explain, "filter": filter}
        read = _reader(SearchAnswer)
        return Operation("POST", "/v1/images/similar", read, params, content=(photo, PHOTO))

    @described
    def explain(
        self, image_id: str, query: str, *, substitute: bool = True, backend: str | None = None
    ) -> Operation[Explanation]:
        """The score of one image for a text, term by term."""
        params: Params = {"q": query, "substitute": substitute, "backend": backend}
        read = _reader(Explanation)
        return Operation("GET", f"{_image_path(image_id)}/explain", read, params)

    @described
    def get_image(
        self, image_id: str, *, backend: str | None = None
    ) -> Operation[schemas.ImageAnswer]:
        """What the index stores about an image."""
        return Operation(
            "GET", _image_path(image_id), _reader(schemas.ImageAnswer), {"backend": backend}
        )

    @described
    def get_photo(self, image_id: str, *, backend: str | None = None) -> Operation[Photo]:
        """The file of an indexed photo."""
        return Operation("GET", f"{_image_path(image_id)}/file", _photo, {"backend": backend})

    @described
    def get_thumbnail(
        self, image_id: str, size: int = 256, *, backend: str | None = None
    ) -> Operation[Photo]:
        """A small picture of an indexed photo, as JPEG.

        Args:
            image_id: of the photo.
            size: pixels of the longer side at most: 256 or 512.
            backend: name of a backend; by default the server's first one.
        """
        params: Params = {"size": size, "backend": backend}
        return Operation("GET", f"{_image_path(image_id)}/thumbnail", _photo, params)

    @described
    def fields(self, *, backend: str | None = None) -> Operation[dict[str, str]]:
        """The fields that filters, facets and orders may name, with their kinds."""
        read = _reader(schemas.FieldsAnswer)
        params = {"backend": backend}
        return Operation("GET", "/v1/fields", lambda response: read(response).fields, params)

    @described
    def backends(self) -> Operation[list[schemas.BackendInfo]]:
        """The backends of the server, the default one first."""
        read = _reader(schemas.BackendList)
        return Operation("GET", "/v1/backends", lambda response: read(response).backends)

    @described
    def put_photo(
        self, image_id: str, photo: bytes, *, refresh: Refresh = "wait"
    ) -> Operation[schemas.WriteAnswer]:
        """Add a photo, or put it in the place of the one with this id.

        Args:
            image_id: usually a path such as "beach/two dogs.jpg".
            photo: the content of the file, which the server keeps.
            refresh: "wait" until searches find it, or "none".
        """
        return _write("PUT", image_id, refresh, content=(photo, PHOTO))

    @described
    def put_image(
        self,
        image_id: str,
        *,
        terms: Mapping[str, float] | None = None,
        features: JsonMapping | None = None,
        metadata: JsonMapping | None = None,
        refresh: Refresh = "wait",
    ) -> Operation[schemas.WriteAnswer]:
        """Add an image whose terms or features are known, or replace the one with this id.

        Args:
            image_id: of the image.
            terms: term → its score above the term's offset.
            features: as `PUT /v1/images/{image_id}` describes them; terms or features, not both.
            metadata: of the image.
            refresh: "wait" until searches find it, or "none".
        """
        given = {"terms": terms, "features": features, "metadata": metadata}
        parts = {name: part for name, part in given.items() if part is not None}
        return _write("PUT", image_id, refresh, parts)

    @described
    def update_image(
        self, image_id: str, metadata: JsonMapping, *, refresh: Refresh = "wait"
    ) -> Operation[schemas.WriteAnswer]:
        """Change some fields of an image's metadata; None removes a field."""
        return _write("PATCH", image_id, refresh, metadata)

    @described
    def delete_image(
        self, image_id: str, *, refresh: Refresh = "wait"
    ) -> Operation[schemas.WriteAnswer]:
        """Delete an image; its file stays where it is."""
        return _write("DELETE", image_id, refresh)

    @described
    def delete_images(
        self,
        ids: Sequence[str] | None = None,
        *,
        filter: Filter | None = None,
        refresh: Refresh = "wait",
    ) -> Operation[schemas.DeleteAnswer]:
        """Delete images by their ids, or those that a filter lets through."""
        body: Json = {"filter": filter} if ids is None else {"ids": list(ids)}
        read = _reader(schemas.DeleteAnswer)
        return Operation("POST", "/v1/images/delete", read, {"refresh": refresh}, body)

    @described
    def write_batch(
        self, lines: Iterable[JsonMapping], *, refresh: Refresh = "wait"
    ) -> Operation[schemas.BatchAnswer]:
        """Add, replace, change and delete many images in one request.

        Args:
            lines: each with `image_id` and one of `terms`, `features`, `photo` (base64),
                `metadata` and `delete`.
            refresh: "wait" until searches find the changes, or "none".

        Returns:
            counts, and the lines that could not be written.
        """
        content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        read = _reader(schemas.BatchAnswer)
        params = {"refresh": refresh}
        return Operation("POST", "/v1/images/batch", read, params, content=(content, LINES))


class Waiting(Operations):
    """The operations as methods that wait for their answers."""

    def _get(self, operation: Operation[Answer]) -> Answer:
        raise NotImplementedError


class Awaited(Operations):
    """The operations as coroutines."""

    _awaited = True

    async def _get(self, operation: Operation[Answer]) -> Answer:
        raise NotImplementedError


def _write(
    method: str,
    image_id: str,
    refresh: Refresh,
    body: JsonMapping | None = None,
    content: tuple[bytes, str] | None = None,
) -> Operation[schemas.WriteAnswer]:
    """A change of one image."""
    params = {"refresh": refresh}
    return Operation(
        method, _image_path(image_id), _reader(schemas.WriteAnswer), params, body, content
    )


def _image_path(image_id: str) -> str:
    """The path of an image.

    Raises:
        NotSentError: if no image can have this id; libraries would ask for another one.
    """
    if problem := id_problem(image_id):
        raise NotSentError(f"the image id {image_id[:50]!r} {problem}; nothing was sent")
    # Slashes stay as they are: some proxies refuse or decode escaped ones.
    return f"/v1/images/{quote(image_id)}"


def _reader(kind: type[Kind]) -> Callable[[httpx.Response], Kind]:
    """Reads an answer of one kind."""
    adapter: TypeAdapter[Kind] = _adapter(kind)
    return lambda response: adapter.validate_json(response.content)


def _photo(response: httpx.Response) -> Photo:
    media_type = response.headers.get("content-type", "")
    if not media_type.startswith(("image/", PHOTO)):
        raise ValueError(f"{media_type} is not a photo")
    return Photo(response.content, media_type)
