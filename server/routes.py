"""The `/v1` interface.

Searchers block, so they run in threads, except those that are quicker than the way to a thread
and back: what runs in the event loop holds up all other requests.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import FileResponse
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from indexer.search.api import Explainer, Explanation, SearchResult, UnknownImageError
from server import schemas
from server.backends import Backend, Backends
from server.photo_files import find_photo, media_type
from server.problems import ProblemError, responses

MAX_K = 1000
MAX_QUERY_LENGTH = 1000
PHOTO_CACHE = "private, max-age=3600"

router = APIRouter(prefix="/v1")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the query is empty; give at least one word")
    return text


async def _chosen(
    request: Request,
    backend: Annotated[
        str | None,
        Query(description="Name of a backend (a + in it is %2B here); the default one if absent"),
    ] = None,
) -> Backend:
    backends: Backends = request.app.state.backends
    return backends.get(backend)


Chosen = Annotated[Backend, Depends(_chosen)]
Count = Annotated[int, Query(ge=1, le=MAX_K, description="At most so many hits")]
Explained = Annotated[
    bool, Query(description="Say of every hit which term won how much, and where")
]


@router.get(
    "/search",
    summary="Find photos by text",
    responses=responses("invalid-parameter", "unknown-backend", "backend-unavailable"),
)
async def search(
    request: Request,
    backend: Chosen,
    q: Annotated[
        str,
        Query(
            max_length=MAX_QUERY_LENGTH,
            description="What to look for, in plain words; a word given twice counts twice",
            examples=["two dogs on a beach"],
        ),
        AfterValidator(_not_blank),
    ],
    k: Count = 10,
    explain: Explained = False,
) -> schemas.SearchAnswer:
    """The photos that fit the query best.

    Words unknown to the backend are listed. The inverted index (`sparta`) finds photos that share
    a term with the query, so that a query of only such words has no hits, and can explain every
    score. A dense model finds the photos nearest to the text as a whole, whatever it says; it
    explains nothing, and is loaded at its first query, which takes seconds.
    """
    if backend.quick and not explain:
        return answer(request, backend, q, k, explain)
    return await run_in_threadpool(answer, request, backend, q, k, explain)


def answer(
    request: Request, backend: Backend, q: str, k: int, explain: bool
) -> schemas.SearchAnswer:
    """Search, and put what was found in the interface's words."""
    searcher = backend.searcher
    result = searcher.search(q, k)
    why = partial(searcher.explain, q) if explain and isinstance(searcher, Explainer) else None
    hits, timings = _found(request, backend, result, why)
    return schemas.SearchAnswer(
        query=q, backend=backend.name, hits=hits, unknown=result.unknown, timings=timings
    )


def _found(
    request: Request,
    backend: Backend,
    result: SearchResult,
    why: Callable[[str], Explanation] | None,
) -> tuple[list[schemas.HitAnswer], schemas.TimingsAnswer]:
    """Hits and times of a result, each hit with the explanation `why` gives of its image."""
    hits = [
        schemas.HitAnswer(
            rank=hit.rank,
            image_id=hit.image_id,
            score=hit.score,
            url=_file_url(request, backend, hit.image_id),
            metadata=hit.metadata,
            view=hit.view,
            explanation=None,
        )
        for hit in result.hits
    ]
    timings = schemas.TimingsAnswer.model_validate(result.timings)
    if why is not None:
        start = perf_counter()
        for hit in hits:
            hit.explanation = [
                schemas.TermAnswer.model_validate(t) for t in why(hit.image_id).terms
            ]
        timings.explain_ms = (perf_counter() - start) * 1000
    return hits, timings


@router.get("/backends", summary="List the searchers")
def list_backends(request: Request) -> schemas.BackendList:
    """Every backend with its size and queries worth trying, the default one first."""
    backends: Backends = request.app.state.backends
    return schemas.BackendList(
        backends=[
            schemas.BackendInfo(
                name=backend.name,
                default=backend is backends.default,
                images=len(backend.searcher),
                photos=backend.photos is not None,
                explains=isinstance(backend.searcher, Explainer),
                examples=list(backend.examples),
            )
            for backend in backends
        ]
    )


# Before the image's own route, whose id would else swallow the "/file".
@router.head("/images/{image_id:path}/file", include_in_schema=False)
@router.get(
    "/images/{image_id:path}/file",
    summary="Get the photo itself",
    response_class=FileResponse,
    responses={
        200: {"description": "The file as it lies on disk", "content": {"image/*": {}}},
        304: {"description": "The photo is the one named by If-None-Match"},
        **responses("unknown-image", "photo-missing", "photo-forbidden", "unknown-backend"),
    },
)
def image_file(request: Request, backend: Chosen, image_id: str) -> Response:
    """The photo of an indexed image, under the media type of what the file holds."""
    _metadata(backend, image_id)
    path = find_photo(backend.photos, image_id)
    try:
        kind, stat = media_type(path), path.stat()
    except OSError as error:
        detail = f"the file of image {image_id!r} cannot be read"
        raise ProblemError("photo-missing", detail, "image_id") from error
    headers = {"Cache-Control": PHOTO_CACHE}
    response = FileResponse(path, media_type=kind, stat_result=stat, headers=headers)
    known = request.headers.get("if-none-match", "").replace("W/", "").split(",")
    if response.headers["etag"] in [tag.strip() for tag in known]:
        return Response(status_code=304, headers=headers | {"ETag": response.headers["etag"]})
    return response


# Before the image's own route too.
@router.get(
    "/images/{image_id:path}/similar",
    summary="Find photos like a photo",
    responses=responses(
        "unknown-image", "invalid-parameter", "unknown-backend", "backend-unavailable"
    ),
)
def similar(
    request: Request, backend: Chosen, image_id: str, k: Count = 10, explain: Explained = False
) -> schemas.SimilarAnswer:
    """The photos most like an indexed one, which is not among them.

    The inverted index asks for the photo's strongest terms, each as often as `terms` says, and
    can explain every score. A dense model finds the nearest vectors, asks for no terms and
    explains nothing.
    """
    _metadata(backend, image_id)
    searcher = backend.searcher
    result = searcher.similar(image_id, k)
    why = None
    if explain and isinstance(searcher, Explainer):
        why = partial(searcher.explain_terms, result.terms)
    hits, timings = _found(request, backend, result, why)
    terms = [schemas.QueryTerm(term=term, count=count) for term, count in result.terms.items()]
    return schemas.SimilarAnswer(
        image_id=image_id,
        url=_file_url(request, backend, image_id),
        backend=backend.name,
        terms=terms,
        hits=hits,
        timings=timings,
    )


@router.get(
    "/images/{image_id:path}",
    summary="Look an image up",
    responses=responses("unknown-image", "unknown-backend"),
)
def image(request: Request, backend: Chosen, image_id: str) -> schemas.ImageAnswer:
    """What the index stores beside an image."""
    return schemas.ImageAnswer(
        image_id=image_id,
        backend=backend.name,
        metadata=_metadata(backend, image_id),
        url=_file_url(request, backend, image_id),
    )


def _metadata(backend: Backend, image_id: str) -> dict[str, object]:
    problem = ProblemError(
        "unknown-image", f"image {image_id[:200]!r} is not in the index", "image_id"
    )
    # Java's native strings end at a NUL: an id cut short there could be that of another image.
    if "\0" in image_id:
        raise problem
    try:
        return backend.searcher.metadata(image_id)
    except UnknownImageError as error:
        raise problem from error


def _file_url(request: Request, backend: Backend, image_id: str) -> str | None:
    if backend.photos is None:
        return None
    url = f"{request.scope.get('root_path', '')}/v1/images/{quote(image_id)}/file"
    backends: Backends = request.app.state.backends
    return url if backend is backends.default else f"{url}?backend={quote(backend.name, safe='')}"
