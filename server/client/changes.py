"""The requests that change an index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from server import schemas
from server.client.operations import PHOTO, Filter, Operation, answer_of, image_path

Refresh = Literal["wait", "none"]
Fields = Mapping[str, Any]
LINES = "application/x-ndjson"  # media type


def put_photo(image_id: str, photo: bytes, refresh: Refresh) -> Operation[schemas.WriteAnswer]:
    """`PUT /v1/images/{image_id}` with the file of a photo."""
    read = answer_of(schemas.WriteAnswer)
    params = {"refresh": refresh}
    return Operation(image_path(image_id), params, read, method="PUT", content=(photo, PHOTO))


def put_image(
    image_id: str, parts: Mapping[str, Any], refresh: Refresh
) -> Operation[schemas.WriteAnswer]:
    """`PUT /v1/images/{image_id}` with features or term weights, and metadata."""
    read = answer_of(schemas.WriteAnswer)
    return Operation(image_path(image_id), {"refresh": refresh}, read, parts, "PUT")


def update_image(
    image_id: str, metadata: Fields, refresh: Refresh
) -> Operation[schemas.WriteAnswer]:
    """`PATCH /v1/images/{image_id}`."""
    read = answer_of(schemas.WriteAnswer)
    return Operation(image_path(image_id), {"refresh": refresh}, read, metadata, "PATCH")


def delete_image(image_id: str, refresh: Refresh) -> Operation[schemas.WriteAnswer]:
    """`DELETE /v1/images/{image_id}`."""
    read = answer_of(schemas.WriteAnswer)
    return Operation(image_path(image_id), {"refresh": refresh}, read, method="DELETE")


def delete_images(
    ids: Sequence[str] | None, filter: Filter | None, refresh: Refresh
) -> Operation[schemas.DeleteAnswer]:
    """`POST /v1/images/delete`."""
    body: dict[str, Any] = {"filter": filter} if ids is None else {"ids": list(ids)}
    read = answer_of(schemas.DeleteAnswer)
    return Operation("/v1/images/delete", {"refresh": refresh}, read, body)


def write_batch(
    lines: Iterable[Mapping[str, Any]], refresh: Refresh
) -> Operation[schemas.BatchAnswer]:
    """`POST /v1/images/batch`."""
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    read = answer_of(schemas.BatchAnswer)
    params = {"refresh": refresh}
    return Operation("/v1/images/batch", params, read, method="POST", content=(content, LINES))
