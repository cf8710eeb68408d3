"""What requests bring: ids of images in their paths, and JSON in their bodies.

A parser is one call that lets no other thread run, so the text is limited: where searches are
answered the call takes at most some 50 ms, and its memory is a few times the text.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import nullcontext
from difflib import get_close_matches
from hashlib import blake2b
from itertools import islice
from threading import Lock
from typing import TypeVar

from fastapi import Depends, Request, Response, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator
from pydantic_core import PydanticCustomError, from_json
from starlette.concurrency import run_in_threadpool
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException

from server.problems import UNKNOWN_NAME, ProblemError
from sparta.json_values import Json, JsonMapping, JsonValue

MAX_ELEMENTS = 300_000  # of what the writer reads: an image with features has 200,000 and more
MANY = 100_000  # elements of a list of ids, which workers read, and lines of a batch
_BEGIN = (b",", b"[", b"{")  # no element is without one before it, but for the outermost
_SMALL = 64 * 1024  # bytes of a text whose reading takes no time to speak of
_PART = 1000  # values of an object that are checked together
_reading = Lock()

T = TypeVar("T")
_Handler = Callable[[Request], Coroutine[None, None, Response]]


class ImageIdConvertor(Convertor[str]):
    """An image id in a path: names of files contain slashes, and may contain line feeds."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        """The id, as it is."""
        return value

    def to_string(self, value: str) -> str:
        """The id, as it is."""
        return value


register_url_convertor("image_id", ImageIdConvertor())
IMAGE_PATH = "/{image_id:image_id}"  # of a path, below /v1/images


def check_elements(text: bytes, most: int) -> None:
    """Check that a JSON text is not too much for a parser.

    Raises:
        ProblemError: if it may have more elements than `most`.
    """
    if sum(map(text.count, _BEGIN)) > most:
        detail = (
            f"the JSON has more than {most:,} elements, counted by commas and opening brackets: "
            "send it in parts"
        )
        raise ProblemError("body-too-large", detail)


def read_json(kind: TypeAdapter[T], text: bytes, most: int = MAX_ELEMENTS) -> T:
    """A JSON text as what it should be.

    Raises:
        ProblemError: if it has too many elements.
        ValidationError: if it is something else.
    """
    check_elements(text, most)
    return kind.validate_json(text.removeprefix(BOM_UTF8))


async def read_body(request: Request, kind: TypeAdapter[T]) -> T:
    """The JSON body of a request.

    Raises:
        ProblemError: if it has too many elements, or is something else.
    """
    try:
        return await _beside(lambda text: read_json(kind, text, MANY), await request.body())
    except ValidationError as error:
        raise ProblemError("invalid-parameter", problem_of(error), "body") from error


class JsonRoute(APIRoute):
    """A route that FastAPI gives the JSON body of its requests, which it would parse itself."""

    def get_route_handler(self) -> _Handler:
        """The endpoint, called with a request whose body is read."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def handle(request: Request) -> Response:
            if body := await request.body():
                _check_json(request)
                request._json = await _beside(_parsed, body)  # where Starlette keeps it
            return await handler(request)

        return handle


def _parameters(route: APIRoute) -> list[str]:
    own = [one["name"] for one in (route.openapi_extra or {}).get("parameters", [])]
    read = get_flat_params(route.dependant)
    return own + [one.alias for one in read if isinstance(one.field_info, params.Query)]


async def _known_parameters(request: Request) -> None:
    """Refuse parameters that the endpoint does not have, which FastAPI would pass over."""
    if not request.query_params:
        return
    try:
        check_names(request.query_params, _parameters(request.scope["route"]), "parameter")
    except PydanticCustomError as error:
        name = str((error.context or {})["name"])
        raise ProblemError("invalid-parameter", error.message(), name) from error


KNOWN_PARAMETERS = Depends(_known_parameters)


def _check_json(request: Request) -> None:
    """Refuse a body that is not said to be JSON, which FastAPI would not parse: ProblemError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (kind.startswith("application/") and kind.endswith(("/json", "+json"))):
        detail = f"the Content-Type is {kind[:60] or 'missing'}: send JSON as application/json"
        raise ProblemError("unsupported-media", detail)


def _parsed(text: bytes) -> JsonValue:
    check_elements(text, MANY)
    try:
        return from_json(text) if (text := text.removeprefix(BOM_UTF8)).strip() else None
    except ValueError as error:
        raise HTTPException(400, f"the body cannot be read as JSON: {error}") from error


async def _beside(task: Callable[[bytes], T], text: bytes) -> T:
    """Do something with a text in a thread; large ones one after another.

    Threads with long calls to a parser would otherwise take turns before the event loop gets one.
    """

    def run() -> T:
        with nullcontext() if len(text) <= _SMALL else _reading:
            return task(text)

    return await run_in_threadpool(run)


class Named(BaseModel):
    """What a request brings by names; others are refused at the first: pydantic would list all."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            check_names(value, cls.model_fields, "field")
        return value


def check_names(given: Iterable[str], known: Collection[str], what: str) -> None:
    """Check that there are no other names than known ones.

    Raises:
        PydanticCustomError: with the first other one, `name`, and the known one nearest to it.
    """
    for name in given:
        if name not in known:
            cased = {one.lower(): one for one in known}
            near = get_close_matches(name[:200].lower(), cased, 1, 0)
            text = f"{name[:200]}: there is no such {what}"
            text += f"; do you mean {cased[near[0]]}?" if near else ""
            raise PydanticCustomError(UNKNOWN_NAME, "{text}", {"text": text, "name": name[:200]})


def in_parts(value: JsonValue, check: Callable[[JsonValue], Json]) -> Json:
    """Check an object part by part, up to the first with an error: `FailFast` is of lists alone."""
    if not isinstance(value, dict):
        return check(value)
    checked: Json = {}
    items = iter(value.items())
    while part := dict(islice(items, _PART)):
        checked |= check(part)
    return checked


def problem_of(error: ValidationError) -> str:
    """The first error in a body, in one line."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))[:200]
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def tag_of(metadata: JsonMapping) -> str:
    """The entity tag of an image as `GET /v1/images/{id}` shows it."""
    return f'"{blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=12).hexdigest()}"'
