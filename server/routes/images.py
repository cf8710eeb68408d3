"""Images of the index: metadata, photo file, small picture, explanation, and similar images."""

from __future__ import annotations

import json
from time import perf_counter
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from indexer.answer import Answer
from server import schemas
from server.backends import Backend, backends_of
from server.monitoring.metrics import MS
from server.monitoring.monitor import record_of
from server.photo_files import MEDIA_TYPE, SIZES, PhotoFile, Thumbnails, find_photo, not_modified
from server.problems import PROBLEM, ProblemError, responses
from server.requests import IMAGE_PATH, KNOWN_PARAMETERS, tag_of
from server.routes import common
from server.routes.writes import forwarder_of
from sparta.json_values import Json

PHOTOS = ("image/", "application/octet-stream")  # kinds of bodies
PHOTO_CACHE = "private, no-cache"  # cached, and asked for again every time: it may be replaced
# OpenAPI documentation of an answer that is a photo; its format tells generated clients not to
# read it as text.
BINARY = {"schema": {"type": "string", "format": "binary"}}
PHOTO: Json = {"image/*": BINARY}
NO_PHOTO = (
    "unknown-image",
    "photo-missing",
    "photo-unreadable",
    "photo-forbidden",
    "unknown-backend",
)


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

router = APIRouter(prefix="/v1/images", dependencies=[KNOWN_PARAMETERS])


# The image's route comes last: an image id can contain slashes, so it would match all paths.
@router.get(
    IMAGE_PATH + "/file",
    summary="Get the photo of an image",
    response_class=FileResponse,
    responses={
        200: {"description": "The photo file, unchanged", "content": PHOTO},
        206: {"description": "The parts of the file that Range asks for", "content": PHOTO},
        304: {"description": "The photo is the one that the client has"},
        400: {"description": "Range cannot be read", "content": PROBLEM},
        416: {"description": "The file has no such range", "content": PROBLEM},
        **responses(*NO_PHOTO),
    },
)
def get_photo(request: Request, backend: common.BackendParameter, image_id: str) -> Response:
    """The photo of an indexed image; its media type is read from the file's content."""
    photo = _photo(backend, image_id)
    headers = {"Cache-Control": PHOTO_CACHE, "ETag": photo.tag}
    if not_modified(request.headers, photo.tag, photo.stat.st_mtime):
        return Response(status_code=304, headers=headers)
    return FileResponse(
        photo.path, media_type=photo.media_type, stat_result=photo.stat, headers=headers
    )


@router.get(
    IMAGE_PATH + "/thumbnail",
    summary="Get a small picture of an image",
    response_class=Response,
    responses={
        200: {
            "description": "The photo, upright and reduced, as JPEG",
            "content": {MEDIA_TYPE: BINARY},
        },
        304: {"description": "The picture is the one that the client has"},
        **responses(*NO_PHOTO, "invalid-parameter", "overloaded"),
    },
)
async def get_thumbnail(
    request: Request,
    backend: common.BackendParameter,
    image_id: str,
    size: SizeParameter = SIZES[0],
) -> Response:
    """The photo of an indexed image, upright, reduced and without its metadata."""

    def task(_: common.Wanted) -> Response:
        photo = _photo(backend, image_id)
        tag = photo.picture_tag(size)
        headers = {"Cache-Control": PHOTO_CACHE, "ETag": tag}
        if "if-none-match" in request.headers and not_modified(request.headers, tag, 0):
            return Response(status_code=304, headers=headers)
        thumbnails: Thumbnails = request.app.state.thumbnails
        return Response(thumbnails.of(photo, size), media_type=MEDIA_TYPE, headers=headers)

    return await common.in_thread(request, task)


def _photo(backend: Backend, image_id: str) -> PhotoFile:
    metadata = backend.searcher.metadata(image_id)
    return find_photo(backend.photos, backend.uploads_with(image_id), image_id, metadata)


@router.get(
    IMAGE_PATH + "/similar",
    summary="Search photos by image",
    responses=responses(
        "unknown-image", "invalid-parameter", "unknown-backend", "backend-unavailable", "overloaded"
    ),
    response_model=schemas.SimilarAnswer,
)
async def similar(
    request: Request,
    backend: common.BackendParameter,
    image_id: str,
    also: common.AlsoParameter = [],  # noqa: B006  # FastAPI copies it
    q: common.WordsParameter = "",
    k: common.CountParameter = 10,
    explain: common.ExplainParameter = False,
    filter: common.FilterParameter = None,
) -> Response:
    """The photos most similar to an indexed image, or to several, without these.

    The inverted index uses the images' top ten terms as a weighted query, to which the words of
    `q` are added; `terms` lists all with their counts, and every score can be explained. A dense
    model compares vectors: it takes no words, has no terms and explains nothing.
    """

    def task(wanted: common.Wanted) -> Response:
        answer = backend.searcher.similar(
            [image_id, *also],
            k,
            words=q,
            filter=common.read(filter),
            explain=common.explained(wanted) if explain else None,
        )
        about = {
            "image_id": image_id,
            "url": common.photo_urls(request, backend)(image_id),
            "also": also,
        }
        return common.json_response(_similar(request, backend, answer, q) | about)

    return await common.in_thread(request, task)


@router.post(
    "/similar",
    summary="Search photos by a photo that is sent",
    operation_id="similar_to_photo",
    response_model=schemas.SearchAnswer,
    responses=responses(
        "invalid-parameter",
        "invalid-image",
        "unsupported-media",
        "not-writable",
        "writing-failed",
        "overloaded",
        "backend-unavailable",
    ),
    openapi_extra={
        "requestBody": {"description": "The file of a photo", "content": PHOTO, "required": True}
    },
)
async def similar_to_photo(
    request: Request,
    k: common.CountParameter = 10,
    explain: common.ExplainParameter = False,
    filter: common.FilterParameter = None,
) -> Response:
    """The photos most similar to one that is sent, which is encoded and not kept.

    It is answered by the first backend, by the photo's top ten terms as a weighted query.
    """
    if not request.headers.get("content-type", "").lower().startswith(PHOTOS):
        detail = "send a photo as image/jpeg (or other) or application/octet-stream"
        raise ProblemError("unsupported-media", detail)
    encoded = await forwarder_of(request).encode(request)
    if encoded.status_code != 200:
        return encoded
    impacts: dict[str, int] = json.loads(bytes(encoded.body))
    backend = backends_of(request).default

    def task(wanted: common.Wanted) -> Response:
        how = common.explained(wanted) if explain else None
        answer = backend.searcher.similar_to(impacts, k, filter=common.read(filter), explain=how)
        return common.json_response(_similar(request, backend, answer, ""))

    return await common.in_thread(request, task)


def _similar(request: Request, backend: Backend, answer: Answer, q: str) -> Json:
    version = backends_of(request).version_of(answer.version)
    return common.answer_json(request, backend, answer, query=q, index_version=version)


@router.get(
    IMAGE_PATH + "/explain",
    summary="Explain the score of an image",
    responses=responses(
        "unknown-image", "invalid-parameter", "unknown-backend", "backend-unavailable", "overloaded"
    ),
    response_model=schemas.ExplanationAnswer,
)
async def explain(
    request: Request,
    backend: common.BackendParameter,
    image_id: str,
    q: common.QueryParameter,
    substitute: common.SubstituteParameter = True,
) -> Response:
    """The score of one image for a query, term by term, whether or not a search finds the image.

    Dense models compare the text as a whole with a photo and cannot explain their scores.
    """

    def task(_: common.Wanted) -> Response:
        start = perf_counter()
        found = backend.searcher.explain(q, image_id, substitute=substitute)
        record_of(request.scope).stages["explain"] = (perf_counter() - start) * MS
        url, version = common.photo_urls(request, backend)(image_id), backends_of(request).version
        about = {"query": q, "backend": backend.name, "index_version": version, "url": url}
        return common.json_response({**about, **vars(found)})

    return await common.in_thread(request, task)


@router.get(
    IMAGE_PATH,
    summary="Get the metadata of an image",
    responses=responses("unknown-image", "unknown-backend"),
)
def get_image(
    request: Request, response: Response, backend: common.BackendParameter, image_id: str
) -> schemas.ImageAnswer:
    """The metadata that the index stores for an image; `ETag` is for `If-Match` of a change."""
    metadata = backend.searcher.metadata(image_id)
    response.headers["ETag"] = tag_of(metadata)
    return schemas.ImageAnswer(
        image_id=image_id,
        backend=backend.name,
        metadata=metadata,
        url=common.photo_urls(request, backend)(image_id),
    )
