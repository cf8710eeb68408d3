"""Converting search results to the hits of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import cast
from urllib.parse import quote

from fastapi import Request, Response
from pydantic import BaseModel

from indexer.search.api import Explanation, SearchResult
from server import schemas
from server.backends import Backend, backends_of
from server.monitoring.record import record_of
from server.problems import ProblemError
from server.work import Wanted

MAX_EXPLAINED = 100_000  # terms of all hits; 0.1 s
EXPLAINED_AT_ONCE = 100  # hits

_plain = re.compile(r"[A-Za-z0-9_.~/-]*").fullmatch

ExplainAll = Callable[[Sequence[str]], list[Explanation]]


def hits_and_timings(
    request: Request,
    backend: Backend,
    result: SearchResult,
    explain: ExplainAll | None,
    wanted: Wanted | None = None,
) -> tuple[list[schemas.HitAnswer], schemas.TimingsAnswer]:
    """The hits and timings of a result.

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
        schemas.HitAnswer(
            rank=hit.rank,
            image_id=hit.image_id,
            score=hit.score,
            url=url(hit.image_id),
            metadata=hit.metadata,
            view=hit.view,
            coverage=hit.coverage,
            explanation=None,
        )
        for hit in result.hits
    ]
    record = record_of(request.scope)
    record.searched(backend.name, backend.engine, result.timings)
    timings = schemas.TimingsAnswer.model_validate(result.timings)
    if explain is not None:
        start = perf_counter()
        _explain_hits(hits, explain, wanted or Wanted())
        timings.explain_ms = record.stages["explain"] = (perf_counter() - start) * 1000
    return hits, timings


def _explain_hits(hits: list[schemas.HitAnswer], explain: ExplainAll, wanted: Wanted) -> None:
    size = 1  # the first alone, which shows how many terms there are
    start = 0
    while start < len(hits):
        wanted.check()
        some = hits[start : start + size]
        for hit, explanation in zip(some, explain([hit.image_id for hit in some]), strict=True):
            hit.coverage = explanation.coverage
            hit.explanation = cast(list[schemas.TermAnswer], explanation.terms)
            if len(hits) * len(explanation.terms) > MAX_EXPLAINED:
                detail = (
                    f"explain: {len(hits)} hits of {len(explanation.terms)} terms are too many; "
                    f"ask for {MAX_EXPLAINED // len(explanation.terms)} hits or a shorter query"
                )
                raise ProblemError("invalid-parameter", detail, "explain")
        start, size = start + size, EXPLAINED_AT_ONCE


def substitutions_of(result: SearchResult) -> list[schemas.SubstitutionAnswer]:
    """The replaced words of a result."""
    return [schemas.SubstitutionAnswer.model_validate(found) for found in result.substitutions]


def conditions_of(result: SearchResult) -> list[schemas.ConditionAnswer]:
    """The words with signs of a result."""
    return [schemas.ConditionAnswer.model_validate(found) for found in result.conditions]


def json_response(answer: BaseModel) -> Response:
    """An answer as JSON, made here and not in the event loop, which it would block."""
    return Response(answer.model_dump_json(), media_type="application/json")


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
