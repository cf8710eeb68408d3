"""Small pictures of photos."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from server.backends import Backend
from server.conditional import not_modified
from server.image_ids import IMAGE
from server.photo_files import find_photo
from server.problems import ProblemError, responses
from server.routes.parameters import BackendParameter
from server.thumbnails import MEDIA_TYPE, SIZES, Thumbnails, picture_tag
from server.work import Work

# Not asked for again while somebody looks through hits; a photo is seldom replaced.
CACHE = "private, max-age=300"
PICTURE: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}


def _offered(size: int) -> int:
    if size not in SIZES:
        raise PydanticCustomError("size", "input should be 256 or 512")
    return size


SizeParameter = Annotated[
    int,
    Query(
        description="Pixels of the longer side; smaller photos stay as they are",
        json_schema_extra={"enum": list(SIZES)},
    ),
    AfterValidator(_offered),
]

router = APIRouter(prefix="/v1/images")


@router.get(
    IMAGE + "/thumbnail",
    summary="Get a small picture of an image",
    response_class=Response,
    responses={
        200: {"description": "The photo, upright and reduced, as JPEG", "content": PICTURE},
        304: {"description": "The picture is the one that the client has"},
        **responses(
            "unknown-image",
            "photo-missing",
            "photo-unreadable",
            "photo-forbidden",
            "unknown-backend",
            "invalid-parameter",
            "overloaded",
        ),
    },
)
async def get_thumbnail(
    request: Request, backend: BackendParameter, image_id: str, size: SizeParameter = SIZES[0]
) -> Response:
    """The photo of an indexed image, upright, reduced and without its metadata."""
    work: Work = request.app.state.work
    answer = partial(thumbnail_answer, request, backend, image_id, size)
    return await work.run(request, lambda _: answer())


def thumbnail_answer(request: Request, backend: Backend, image_id: str, size: int) -> Response:
    """Find, reduce and answer with a photo, unless the client has it."""
    metadata = backend.searcher.metadata(image_id)
    path, _ = find_photo(backend.photos, backend.uploads_with(image_id), image_id, metadata)
    tag = _tag(path, image_id, size)
    headers = {"Cache-Control": CACHE, "ETag": tag}
    if "if-none-match" in request.headers and not_modified(request.headers, tag, 0):
        return Response(status_code=304, headers=headers)
    thumbnails: Thumbnails = request.app.state.thumbnails
    return Response(thumbnails.of(path, size), media_type=MEDIA_TYPE, headers=headers)


def _tag(path: Path, image_id: str, size: int) -> str:
    try:
        return picture_tag(path, size)
    except OSError as error:
        detail = f"the file of image {image_id!r} cannot be read"
        raise ProblemError("photo-missing", detail, "image_id") from error
