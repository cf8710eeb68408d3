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

Answer = TypeVar("Answer")
Model = TypeVar("Model", bound=BaseModel)
Params = Mapping[str, str | float | bool | Sequence[str] | None]
Filter = str | Mapping[str, Any]  # as text or as JSON


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
        body: sent as JSON with POST; None for GET.
        read: makes the typed answer; raises ValueError if the response is not one.
    """

    path: str
    params: Params
    read: Callable[[httpx.Response], Answer]
    body: Mapping[str, Any] | None = None

    def request(self, client: httpx.Client | httpx.AsyncClient, server: str) -> httpx.Request:
        """The request for one server."""
        params = {name: value for name, value in self.params.items() if value is not None}
        if self.body is not None:
            return client.build_request("POST", server + self.path, json=self.body)
        return client.build_request("GET", server + self.path, params=params)

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
) -> Operation[schemas.SearchAnswer]:
    """`GET /v1/search`, or `POST` for a filter as JSON."""
    params: dict[str, str | float | bool | None] = {
        "q": query,
        "k": k,
        "explain": explain,
        "substitute": substitute,
        "min_coverage": min_coverage,
        "backend": backend,
        "offset": offset or None,
        "sort": sort,
    }
    read = _model(schemas.SearchAnswer)
    if filter is None or isinstance(filter, str):
        params |= {"filter": filter, "facets": ",".join(facets) or None}
        return Operation("/v1/search", params, read)
    body: dict[str, Any] = {name: value for name, value in params.items() if value is not None}
    body |= {"filter": filter, "facets": list(facets)}
    return Operation("/v1/search", {}, read, body)


def count(filter: Filter | None, backend: str | None) -> Operation[schemas.CountAnswer]:
    """`POST /v1/images/count`."""
    body = {"filter": filter, "backend": backend}
    return Operation("/v1/images/count", {}, _model(schemas.CountAnswer), body)


def suggest(query: str, k: int) -> Operation[list[schemas.SuggestionAnswer]]:
    """`GET /v1/suggest`."""
    read = _model(schemas.SuggestAnswer)
    params: Params = {"q": query, "k": k}
    return Operation("/v1/suggest", params, lambda response: read(response).suggestions)


def similar(
    image_id: str | Sequence[str], k: int, words: str, explain: bool, backend: str | None
) -> Operation[schemas.SimilarAnswer]:
    """`GET /v1/images/{image_id}/similar`."""
    first, *also = [image_id] if isinstance(image_id, str) else image_id
    params: Params = {"also": also, "q": words, "k": k, "explain": explain, "backend": backend}
    return Operation(f"{_image(first)}/similar", params, _model(schemas.SimilarAnswer))


def explain(
    query: str, image_id: str, substitute: bool, backend: str | None
) -> Operation[schemas.ExplanationAnswer]:
    """`GET /v1/images/{image_id}/explain`."""
    params: Params = {"q": query, "substitute": substitute, "backend": backend}
    return Operation(f"{_image(image_id)}/explain", params, _model(schemas.ExplanationAnswer))


def get_image(image_id: str, backend: str | None) -> Operation[schemas.ImageAnswer]:
    """`GET /v1/images/{image_id}`."""
    return Operation(_image(image_id), {"backend": backend}, _model(schemas.ImageAnswer))


def get_photo(image_id: str, backend: str | None) -> Operation[Photo]:
    """`GET /v1/images/{image_id}/file`."""
    return Operation(f"{_image(image_id)}/file", {"backend": backend}, _photo)


def list_backends() -> Operation[list[schemas.BackendInfo]]:
    """`GET /v1/backends`."""
    read = _model(schemas.BackendList)
    return Operation("/v1/backends", {}, lambda response: read(response).backends)


def _image(image_id: str) -> str:
    # Slashes stay as they are: some proxies refuse or decode escaped ones.
    return f"/v1/images/{quote(image_id)}"


def _model(model: type[Model]) -> Callable[[httpx.Response], Model]:
    return lambda response: model.model_validate_json(response.content)


def _photo(response: httpx.Response) -> Photo:
    media_type = response.headers.get("content-type", "")
    if not media_type.startswith(("image/", "application/octet-stream")):
        raise ValueError(f"{media_type} is not a photo")
    return Photo(response.content, media_type)
