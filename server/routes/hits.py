"""Converting search results to answers: objects with the fields of their schemas.

They are JSON objects, not models: making and checking models would take longer than a search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeAlias
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel
from pydantic_core import to_json

from indexer.search.api import Explanation, SearchResult
from server.backends import Backend, backends_of
from server.monitoring.record import record_of
from server.problems import ProblemError
from server.work import Wanted

MAX_EXPLAINED = 100_000  # terms of all hits; 0.1 s
EXPLAINED_AT_ONCE = 100  # hits

_plain = re.compile(r"[A-Za-z0-9_.~/-]*").fullmatch

Json: TypeAlias = dict[str, Any]
ExplainAll = Callable[[Sequence[str]], list[Explanation]]


def hits_and_timings(
    request: Request,
    backend: Backend,
    result: SearchResult,
    explain: ExplainAll | None,
    wanted: Wanted | None = None,
) -> tuple[list[Json], Json]:
    """The hits and timings of a result; see `HitAnswer` and `TimingsAnswer`.

    Args:
        request: that is answered.
        backend: that searched.
        result: of the search.
        explain: explains the scores of images; None for hits without explanation.
        wanted: whether the client still waits for the answer; None if it certainly does.

    Raises:
        ProblemError: if the terms of all hits are too many to explain.
    """
    url = photo_urls(request, backend)
    hits = [
        {
            "rank": hit.rank,
            "image_id": hit.image_id,
            "score": float(hit.score),
            "url": url(hit.image_id),
            "metadata": hit.metadata,
            "view": hit.view,
            "coverage": hit.coverage,
            "explanation": None,
        }
        for hit in result.hits
    ]
    record = record_of(request.scope)
    times = result.timings
    record.searched(backend.name, backend.engine, times)
    explain_ms = None
    if explain is not None:
        start = perf_counter()
        _explain_hits(hits, explain, wanted or Wanted())
        explain_ms = record.stages["explain"] = (perf_counter() - start) * 1000
    return hits, {
        "tokenise_ms": times.tokenise_ms,
        "encode_ms": times.encode_ms,
        "search_ms": times.search_ms,
        "total_ms": times.total_ms,
        "explain_ms": explain_ms,
    }


def _explain_hits(hits: list[Json], explain: ExplainAll, wanted: Wanted) -> None:
    size = 1  # the first alone, which shows how many terms there are
    start = 0
    while start < len(hits):
        wanted.check()
        some = hits[start : start + size]
        for hit, explanation in zip(some, explain([hit["image_id"] for hit in some]), strict=True):
            hit["coverage"], hit["explanation"] = explanation.coverage, explanation.terms
            if len(hits) * len(explanation.terms) > MAX_EXPLAINED:
                detail = (
                    f"explain: {len(hits)} hits of {len(explanation.terms)} terms are too many; "
                    f"ask for {MAX_EXPLAINED // len(explanation.terms)} hits or a shorter query"
                )
                raise ProblemError("invalid-parameter", detail, "explain")
        start, size = start + size, EXPLAINED_AT_ONCE


def json_response(answer: BaseModel | Json) -> Response:
    """An answer as JSON, made here and not in the event loop, which it would block."""
    return Response(json_text(answer), media_type="application/json")


def json_text(answer: BaseModel | Json) -> bytes:
    """As `json_response`, the body alone."""
    return to_json(answer, inf_nan_mode="null")


def photo_url(request: Request, backend: Backend, image_id: str) -> str | None:
    """Path of the photo on this server, None if the backend has no photos folder."""
    return photo_urls(request, backend)(image_id)


def photo_urls(request: Request, backend: Backend) -> Callable[[str], str | None]:
    """As `photo_url`, for the images of one answer."""
    default = backend is backends_of(request).default
    return paths_of_photos(backend, default, request.scope.get("root_path", ""))


def paths_of_photos(
    backend: Backend, default: bool, root_path: str = ""
) -> Callable[[str], str | None]:
    """As `photo_url`, for the images of a backend.

    Args:
        backend: of the images.
        default: whether it is asked where no other is named.
        root_path: of the server.
    """
    if not backend.has_photos:
        return lambda _: None
    start = f"{root_path}/v1/images/"
    end = "/file" if default else f"/file?backend={quote(backend.name, safe='')}"
    # Most ids need no quoting, which takes longer than to look whether one does.
    return lambda image_id: f"{start}{image_id if _plain(image_id) else quote(image_id)}{end}"
