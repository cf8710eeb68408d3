"""The requests of the REST interface, and how their answers are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel

from server import schemas
from server.client import errors
from sparta.image_ids import id_problem

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)
Params = Mapping[str, str | float | bool | Sequence[str] | None]
Filter = str | Mapping[str, Any]  # as text or as JSON


PHOTO = "application/octet-stream"  # media type of a photo of any kind


@dataclass(frozen=True)
class Photo:
    """The file of a photo.

    Attributes:
        content: the bytes of the file, unchanged.
        media_type: as the server read it from the content, such as `image/jpeg`.
    """

    content: bytes
    media_type: str


@dataclass(frozen=True)
class Operation(Generic[Answer]):
    """A request, and how its answer is read.

    Attributes:
        path: below the address of the server.
        params: of the query; None for those that are left out.
        read: makes the typed answer; raises ValueError if the response is not one.
        body: sent as JSON; None for none.
        method: by default POST with a body, else GET.
        content: bytes sent in place of a body, and their media type; None for none.
    """

    path: str
    params: Params
    read: Callable[[httpx.Response], Answer]
    body: Mapping[str, Any] | None = None
    method: str = ""
    content: tuple[bytes, str] | None = None

    def request(self, client: httpx.Client | httpx.AsyncClient, server: str) -> httpx.Request:
        """The request for one server."""
        params = {name: value for name, value in self.params.items() if value is not None}
        method = self.method or ("GET" if self.body is None else "POST")
        content, media_type = self.content or (None, None)
        headers = {"Content-Type": media_type} if media_type else None
        return client.build_request(
            method,
            server + self.path,
            params=params,
            json=self.body,
            content=content,
            headers=headers,
        )

    def answer(self, outcome: httpx.Response | httpx.TransportError, server: str) -> Answer:
        """The answer to the last attempt.

        Raises:
            ClientError: if it is an error, or not the answer of a VisualSparta server.
        """
        if isinstance(outcome, httpx.TransportError):
            raise errors.unreachable(outcome, server)
        if outcome.is_error:
            raise errors.answered(outcome)
        try:
            return self.read(outcome)
        except ValueError as error:
            raise errors.not_understood(outcome) from error


def search(
    query: str,
    k: int,
    explain: bool,
    substitute: bool,
    backend: str | None,
    filter: Filter | None = None,
    offset: int = 0,
    sort: str | None = None,
    facets: Sequence[str] = (),
    min_coverage: float | None = None,
    cursor: str | None = None,
) -> Operation[schemas.SearchAnswer]:
    """`GET /v1/search`, or `POST` for a filter as JSON."""
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
    }
    read = answer_of(schemas.SearchAnswer)
    if filter is None or isinstance(filter, str):
        params |= {"filter": filter, "facets": ",".join(facets) or None}
        return Operation("/v1/search", params, read)
    body: dict[str, Any] = {name: value for name, value in params.items() if value is not None}
    body |= {"filter": filter, "facets": list(facets)}
    return Operation("/v1/search", {}, read, body)


def search_several(
    searches: Sequence[Mapping[str, Any]],
) -> Operation[list[schemas.SearchAnswer]]:
    """`POST /v1/search` with several searches."""
    read = answer_of(schemas.SearchAnswers)
    body = {"queries": list(searches)}
    return Operation("/v1/search", {}, lambda response: read(response).answers, body)


def count(filter: Filter | None, backend: str | None) -> Operation[schemas.CountAnswer]:
    """`POST /v1/images/count`."""
    body = {"filter": filter, "backend": backend}
    return Operation("/v1/images/count", {}, answer_of(schemas.CountAnswer), body)


def suggest(query: str, k: int) -> Operation[list[schemas.SuggestionAnswer]]:
    """`GET /v1/suggest`."""
    read = answer_of(schemas.SuggestAnswer)
    params: Params = {"q": query, "k": k}
    return Operation("/v1/suggest", params, lambda response: read(response).suggestions)


def similar(
    image_id: str | Sequence[str],
    k: int,
    words: str,
    explain: bool,
    backend: str | None,
    filter: str | None = None,
) -> Operation[schemas.SimilarAnswer]:
    """`GET /v1/images/{image_id}/similar`."""
    first, *also = [image_id] if isinstance(image_id, str) else image_id
    params: Params = {
        "also": also,
        "q": words,
        "k": k,
        "explain": explain,
        "backend": backend,
        "filter": filter,
    }
    return Operation(f"{image_path(first)}/similar", params, answer_of(schemas.SimilarAnswer))


def similar_to_photo(
    photo: bytes, k: int, explain: bool, filter: str | None
) -> Operation[schemas.PhotoSearchAnswer]:
    """`POST /v1/images/similar`."""
    params: Params = {"k": k, "explain": explain, "filter": filter}
    read = answer_of(schemas.PhotoSearchAnswer)
    return Operation("/v1/images/similar", params, read, method="POST", content=(photo, PHOTO))


def explain(
    query: str, image_id: str, substitute: bool, backend: str | None
) -> Operation[schemas.ExplanationAnswer]:
    """`GET /v1/images/{image_id}/explain`."""
    params: Params = {"q": query, "substitute": substitute, "backend": backend}
    return Operation(
        f"{image_path(image_id)}/explain", params, answer_of(schemas.ExplanationAnswer)
    )


def get_image(image_id: str, backend: str | None) -> Operation[schemas.ImageAnswer]:
    """`GET /v1/images/{image_id}`."""
    return Operation(image_path(image_id), {"backend": backend}, answer_of(schemas.ImageAnswer))


def get_photo(image_id: str, backend: str | None) -> Operation[Photo]:
    """`GET /v1/images/{image_id}/file`."""
    return Operation(f"{image_path(image_id)}/file", {"backend": backend}, _photo)


def get_thumbnail(image_id: str, size: int, backend: str | None) -> Operation[Photo]:
    """`GET /v1/images/{image_id}/thumbnail`."""
    params: Params = {"size": size, "backend": backend}
    return Operation(f"{image_path(image_id)}/thumbnail", params, _photo)


def list_fields(backend: str | None) -> Operation[dict[str, str]]:
    """`GET /v1/fields`."""
    read = answer_of(schemas.FieldsAnswer)
    return Operation("/v1/fields", {"backend": backend}, lambda response: read(response).fields)


def list_backends() -> Operation[list[schemas.BackendInfo]]:
    """`GET /v1/backends`."""
    read = answer_of(schemas.BackendList)
    return Operation("/v1/backends", {}, lambda response: read(response).backends)


def image_path(image_id: str) -> str:
    """Of an image.

    Raises:
        NotSentError: if no image can have this id; libraries would ask for another one.
    """
    if problem := id_problem(image_id):
        raise errors.NotSentError(f"the image id {image_id[:50]!r} {problem}; nothing was sent")
    # Slashes stay as they are: some proxies refuse or decode escaped ones.
    return f"/v1/images/{quote(image_id)}"


def answer_of(model: type[Model]) -> Callable[[httpx.Response], Model]:
    """Reads an answer of one kind."""
    return lambda response: model.model_validate_json(response.content)


def _photo(response: httpx.Response) -> Photo:
    media_type = response.headers.get("content-type", "")
    if not media_type.startswith(("image/", PHOTO)):
        raise ValueError(f"{media_type} is not a photo")
    return Photo(response.content, media_type)
