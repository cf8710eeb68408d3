"""Changing the index: images, their metadata, and many at once."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool

from server import schemas
from server.backends import backends_of
from server.problems import ProblemError, responses
from server.requests import IMAGE_PATH, KNOWN_PARAMETERS, read_body
from server.routes.common import read
from server.security.access import requires
from server.writing.bodies import DELETE, BatchLine, DeleteBody, ImageBody, Refresh
from server.writing.forward import Forwarder
from sparta.json_values import Json

REF = "#/components/schemas/{model}"
BODIES: tuple[type[BaseModel], ...] = (ImageBody, BatchLine, DeleteBody)
FIELDS = {"type": "object", "additionalProperties": True, "examples": [{"rating": 5}]}
ALWAYS = (
    "invalid-parameter",
    "index-busy",
    "not-writable",
    "writing-failed",
    "writing-unsure",
)
DELETED_AT_ONCE = 4000  # images, between which others write

RefreshParameter = Annotated[
    Refresh,
    Query(
        description="wait: answer when searches find the change; none: as soon as it is saved, "
        "searches find it about a second later"
    ),
]

OnlyNewParameter = Annotated[
    Literal["*"] | None,
    Header(description="*: refuse the image if the index has one with its id (RFC 9110)"),
]


IF_MATCH = Header(description="ETag of the image: refuse the change if it has another (RFC 9110)")


def _documented(if_match: Annotated[str | None, IF_MATCH] = None) -> None:
    """What the writer reads of every request about one image."""


# Of many images, and of one, whose path would match those of many.
many = APIRouter(prefix="/v1/images", dependencies=[requires("write"), KNOWN_PARAMETERS])
OF_ONE = [requires("write"), KNOWN_PARAMETERS, Depends(_documented)]
one = APIRouter(prefix="/v1/images", dependencies=OF_ONE)


def _body(content: Json, description: str) -> Json:
    return {"requestBody": {"description": description, "content": content, "required": True}}


def _json(model: type[BaseModel]) -> Json:
    return {"schema": {"$ref": REF.format(model=model.__name__)}}


def body_schemas() -> Json:
    """Schemas of the bodies, for the OpenAPI document: routes pass them on without reading them."""
    modes: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in BODIES
    ]
    _, found = models_json_schema(modes, ref_template=REF)
    definitions: Json = found["$defs"]
    return definitions


@many.post(
    "/batch",
    summary="Write many images",
    operation_id="write_batch",
    response_model=schemas.BatchAnswer,
    responses=responses(*ALWAYS),
    openapi_extra=_body({"application/x-ndjson": _json(BatchLine)}, "An object a line"),
)
async def write_batch(request: Request, refresh: RefreshParameter = "wait") -> Response:
    """Add, replace, change and delete images, a line each, in their order.

    Lines that cannot be written are listed with their numbers; the others are written.
    """
    return await forwarder_of(request).send(request, "batch", refresh)


@many.post(
    "/delete",
    summary="Delete images by ids or by a filter",
    operation_id="delete_images",
    response_model=schemas.DeleteAnswer,
    responses=responses(*ALWAYS, "stopping"),
    openapi_extra=_body({"application/json": _json(DeleteBody)}, "Ids, or a filter"),
)
async def delete_images(request: Request, refresh: RefreshParameter = "wait") -> Response:
    """Delete images; ids that the index lacks are listed.

    A filter is applied to the images that searches find when the request arrives. Many images are
    deleted 4,000 at a time, and others write in between. A request that fails leaves those deleted
    that it had deleted until then: send it again.
    """
    asked = await read_body(request, DELETE)
    ids = asked.ids
    if ids is None:
        searcher = backends_of(request).default.searcher
        ids = await run_in_threadpool(lambda: searcher.ids(read(asked.filter)))
    whole = schemas.DeleteAnswer(deleted=0, missing=[])
    for start in range(0, len(ids) or 1, DELETED_AT_ONCE):
        if request.app.state.stopping:
            raise ProblemError("stopping", "the server is stopping; send the request again")
        end = start + DELETED_AT_ONCE
        part = json.dumps(ids[start:end]).encode()
        last = end >= len(ids)
        answer = await forwarder_of(request).send(
            request, "delete", refresh if last else "none", part
        )
        if answer.status_code != 200 or (last and not start):
            return answer
        found = schemas.DeleteAnswer.model_validate_json(bytes(answer.body))
        whole.deleted += found.deleted
        whole.missing += found.missing
        whole.index_version = found.index_version
    return Response(whole.model_dump_json(), media_type="application/json")


@one.put(
    IMAGE_PATH,
    summary="Add an image, or replace it",
    operation_id="put_image",
    response_model=schemas.WriteAnswer,
    responses=responses(
        *ALWAYS, "invalid-image", "unsupported-media", "image-exists", "image-changed"
    ),
    openapi_extra=_body(
        {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "application/json": _json(ImageBody),
        },
        "The file of a photo; or photo, features or ready term weights, with metadata",
    ),
)
async def put_image(
    request: Request,
    image_id: str,
    refresh: RefreshParameter = "wait",
    if_none_match: OnlyNewParameter = None,
) -> Response:
    """Encode an image as the index was built, and put it in the place of one with its id.

    A photo is kept under the index; files in the photos folder are never changed.
    """
    return await forwarder_of(request).image(request, image_id, refresh)


@one.patch(
    IMAGE_PATH,
    summary="Change the metadata of an image",
    operation_id="update_image",
    response_model=schemas.WriteAnswer,
    responses=responses(*ALWAYS, "invalid-image", "unknown-image", "image-changed"),
    openapi_extra=_body({"application/json": {"schema": FIELDS}}, "The fields that change"),
)
async def update_image(
    request: Request, image_id: str, refresh: RefreshParameter = "wait"
) -> Response:
    """Change some fields; null removes one (RFC 7396). The image is not encoded again."""
    return await forwarder_of(request).image(request, image_id, refresh)


@one.delete(
    IMAGE_PATH,
    summary="Delete an image",
    operation_id="delete_image",
    response_model=schemas.WriteAnswer,
    responses=responses(*ALWAYS, "unknown-image", "image-changed"),
)
async def delete_image(
    request: Request, image_id: str, refresh: RefreshParameter = "wait"
) -> Response:
    """Delete an image from the index; its file stays where it is."""
    return await forwarder_of(request).image(request, image_id, refresh)


def forwarder_of(request: Request) -> Forwarder:
    """What passes requests on."""
    forwarder: Forwarder = request.app.state.forwarder
    return forwarder
