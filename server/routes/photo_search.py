"""Search by a photo that the index does not have."""

from __future__ import annotations

import json
from functools import partial

from fastapi import APIRouter, Request, Response

from indexer.search.api import Explainer, PhotoSearcher
from server import schemas
from server.backends import backends_of
from server.problems import ProblemError, responses
from server.routes.filtering import allowed_by
from server.routes.hits import Json, hits_and_timings, json_response
from server.routes.parameters import CountParameter, ExplainParameter, FilterParameter
from server.routes.writes import forwarder_of
from server.work import Wanted, Work

PHOTOS = ("image/", "application/octet-stream")  # kinds of bodies

router = APIRouter(prefix="/v1/images")


@router.post(
    "/similar",
    summary="Search photos by a photo that is sent",
    operation_id="similar_to_photo",
    response_model=schemas.PhotoSearchAnswer,
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
        "requestBody": {
            "description": "The file of a photo",
            "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
            "required": True,
        }
    },
)
async def similar_to_photo(
    request: Request,
    k: CountParameter = 10,
    explain: ExplainParameter = False,
    filter: FilterParameter = None,
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
    work: Work = request.app.state.work
    answer = partial(_answer, request, impacts, k, explain, filter)
    return await work.run(request, lambda wanted: json_response(answer(wanted)))


def _answer(
    request: Request,
    impacts: dict[str, int],
    k: int,
    explain: bool,
    filter: str | None,
    wanted: Wanted,
) -> Json:
    backends = backends_of(request)
    backend, searcher = backends.default, backends.default.searcher
    if not isinstance(searcher, PhotoSearcher):
        detail = f"backend {backend.name!r} cannot search by a photo that is sent"
        raise ProblemError("backend-unavailable", detail, "backend")
    result = searcher.similar_to(impacts, k, allowed=allowed_by(backend, filter))
    why = None
    if explain and isinstance(searcher, Explainer):
        why = partial(searcher.explain_all, result.terms)
    hits, timings = hits_and_timings(request, backend, result, why, wanted)
    return {
        "backend": backend.name,
        "index_version": backends.version,
        "terms": [{"term": term, "count": count} for term, count in result.terms.items()],
        "hits": hits,
        "timings": timings,
    }
