"""Converting search results to the hits of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import cast
from urllib.parse import quote

from fastapi import Request

from indexer.search.api import Explanation, SearchResult
from server import schemas
from server.backends import Backend, Backends


def hits_and_timings(
    request: Request,
    backend: Backend,
    result: SearchResult,
    explain: Callable[[Sequence[str]], list[Explanation]] | None,
) -> tuple[list[schemas.HitAnswer], schemas.TimingsAnswer]:
    """The hits and timings of a result.

    Args:
        request: that is answered.
        backend: that searched.
        result: of the search.
        explain: explains the scores of images; None for hits without explanation.
    """
    hits = [
        schemas.HitAnswer(
            rank=hit.rank,
            image_id=hit.image_id,
            score=hit.score,
            url=photo_url(request, backend, hit.image_id),
            metadata=hit.metadata,
            view=hit.view,
            explanation=None,
        )
        for hit in result.hits
    ]
    timings = schemas.TimingsAnswer.model_validate(result.timings)
    if explain is not None:
        start = perf_counter()
        explanations = explain([hit.image_id for hit in hits])
        for hit, explanation in zip(hits, explanations, strict=True):
            hit.explanation = cast(list[schemas.TermAnswer], explanation.terms)
        timings.explain_ms = (perf_counter() - start) * 1000
    return hits, timings


def photo_url(request: Request, backend: Backend, image_id: str) -> str | None:
    """Path of the photo on this server, None if the backend has no photos folder."""
    if backend.photos is None:
        return None
    url = f"{request.scope.get('root_path', '')}/v1/images/{quote(image_id)}/file"
    backends: Backends = request.app.state.backends
    return url if backend is backends.default else f"{url}?backend={quote(backend.name, safe='')}"
