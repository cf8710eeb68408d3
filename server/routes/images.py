"""Images of the index: metadata, photo file, and search for similar images."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import FileResponse

from indexer.search.api import Explainer, NoVectorError, UnknownImageError
from server import schemas
from server.backends import Backend, backends_of
from server.conditional import entity_tag, not_modified
from server.image_ids import IMAGE
from server.photo_files import find_photo
from server.problems import PROBLEM, ProblemError, responses, unknown_image
from server.routes.filtering import allowed_by
from server.routes.hits import (
    Json,
    hits_and_timings,
    json_response,
    photo_url,
)
from server.routes.parameters import (
    AlsoParameter,
    BackendParameter,
    CountParameter,
    ExplainParameter,
    FilterParameter,
    WordsParameter,
)
from server.work import Wanted, Work

PHOTO_CACHE = "private, no-cache"  # cached, and asked for again every time: it may be replaced
# OpenAPI documentation of an answer that is a photo; its format tells generated clients not to
# read it as text.
PHOTO: dict[str, Any] = {"image/*": {"schema": {"type": "string", "format": "binary"}}}

router = APIRouter(prefix="/v1/images")


# The routes "…/file" and "…/similar" come first: an image id can contain slashes, so the image's
# route would match their paths too.
@router.head(IMAGE + "/file", include_in_schema=False)
@router.get(
    IMAGE + "/file",
    summary="Get the photo of an image",
    response_class=FileResponse,
    responses={
        200: {"description": "The photo file, unchanged", "content": PHOTO},
        206: {"description": "The parts of the file that Range asks for", "content": PHOTO},
        304: {"description": "The photo is the one that the client has"},
        400: {"description": "Range cannot be read", "content": PROBLEM},
        416: {"description": "The file has no such range", "content": PROBLEM},
        **responses(
            "unknown-image",
            "photo-missing",
            "photo-unreadable",
            "photo-forbidden",
            "unknown-backend",
        ),
    },
)
def get_photo(request: Request, backend: BackendParameter, image_id: str) -> Response:
    """The photo of an indexed image; its media type is read from the file's content."""
    metadata = stored_metadata(backend, image_id)
    path, kind = find_photo(backend.photos, backend.uploads_with(image_id), image_id, metadata)
    try:
        stat = path.stat()
    except OSError as error:
        detail = f"the file of image {image_id!r} cannot be read"
        raise ProblemError("photo-missing", detail, "image_id") from error
    headers = {"Cache-Control": PHOTO_CACHE, "ETag": entity_tag(stat)}
    response = FileResponse(path, media_type=kind, stat_result=stat, headers=headers)
    if not_modified(request.headers, headers["ETag"], stat.st_mtime):
        return Response(status_code=304, headers=headers)
    return response


@router.get(
    IMAGE + "/similar",
    summary="Search photos by image",
    responses=responses(
        "unknown-image",
        "invalid-parameter",
        "unknown-backend",
        "backend-unavailable",
        "overloaded",
    ),
    response_model=schemas.SimilarAnswer,
)
async def similar(
    request: Request,
    backend: BackendParameter,
    image_id: str,
    also: AlsoParameter = [],  # noqa: B006  # FastAPI copies it
    q: WordsParameter = "",
    k: CountParameter = 10,
    explain: ExplainParameter = False,
    filter: FilterParameter = None,
) -> Response:
    """The photos most similar to an indexed image, or to several, without these.

    The inverted index uses the images' top ten terms as a weighted query, to which the words of
    `q` are added; `terms` lists all with their counts, and every score can be explained. A dense
    model compares vectors: it takes no words, has no terms and explains nothing.
    """
    work: Work = request.app.state.work
    answer = partial(similar_answer, request, backend, image_id, also, q, k, explain, filter)
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


def similar_answer(
    request: Request,
    backend: Backend,
    image_id: str,
    also: list[str],
    q: str,
    k: int,
    explain: bool,
    filter: str | None,
    wanted: Wanted,
) -> Json:
    """Search one backend by images and convert the result to a `SimilarAnswer`."""
    for one in (image_id, *also):
        stored_metadata(backend, one)
    searcher = backend.searcher
    allowed = allowed_by(backend, filter)
    try:
        result = searcher.similar([image_id, *also], k, words=q, allowed=allowed)
    except NoVectorError as error:
        raise ProblemError("invalid-parameter", str(error), "image_id") from error
    why = None
    if explain and isinstance(searcher, Explainer):
        why = partial(searcher.explain_all, result.terms)
    hits, timings = hits_and_timings(request, backend, result, why, wanted)
    return {
        "image_id": image_id,
        "url": photo_url(request, backend, image_id),
        "also": also,
        "query": q,
        "backend": backend.name,
        "index_version": backends_of(request).version,
        "terms": [{"term": term, "count": count} for term, count in result.terms.items()],
        "unknown": result.unknown,
        "rare": result.rare,
        "substitutions": result.substitutions,
        "conditions": result.conditions,
        "hits": hits,
        "timings": timings,
        "missing_images": backend.missing,
    }


@router.get(
    IMAGE,
    summary="Get the metadata of an image",
    responses=responses("unknown-image", "unknown-backend"),
)
def get_image(request: Request, backend: BackendParameter, image_id: str) -> schemas.ImageAnswer:
    """The metadata that the index stores for an image."""
    return schemas.ImageAnswer(
        image_id=image_id,
        backend=backend.name,
        metadata=stored_metadata(backend, image_id),
        url=photo_url(request, backend, image_id),
    )


def stored_metadata(backend: Backend, image_id: str) -> dict[str, object]:
    """What the index stores about an image.

    Raises:
        ProblemError: if the index has no such image.
    """
    problem = unknown_image(image_id)
    # Native strings end at a NUL: Java would look up the part before it, perhaps another image.
    if "\0" in image_id:
        raise problem
    try:
        return backend.searcher.metadata(image_id)
    except UnknownImageError as error:
        raise problem from error
