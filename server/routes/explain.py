"""Why one image has the score it has for a query."""

from __future__ import annotations

from time import perf_counter

from fastapi import APIRouter, Request, Response

from indexer.search.api import Explainer
from server import schemas
from server.backends import Backend, backends_of
from server.image_ids import IMAGE
from server.monitoring.metrics import MS
from server.monitoring.record import record_of
from server.problems import ProblemError, responses
from server.routes.hits import json_response, photo_url
from server.routes.images import stored_metadata
from server.routes.parameters import BackendParameter, QueryParameter, SubstituteParameter
from server.work import Work

router = APIRouter(prefix="/v1/images")


@router.get(
    IMAGE + "/explain",
    summary="Explain the score of an image",
    responses=responses(
        "unknown-image",
        "invalid-parameter",
        "unknown-backend",
        "backend-unavailable",
        "overloaded",
    ),
    response_model=schemas.ExplanationAnswer,
)
async def explain(
    request: Request,
    backend: BackendParameter,
    image_id: str,
    q: QueryParameter,
    substitute: SubstituteParameter = True,
) -> Response:
    """The score of one image for a query, term by term, whether or not a search finds the image.

    Dense models compare the text as a whole with a photo and cannot explain their scores.
    """
    work: Work = request.app.state.work
    return await work.run(
        request, lambda _: json_response(explain_answer(request, backend, image_id, q, substitute))
    )


def explain_answer(
    request: Request, backend: Backend, image_id: str, q: str, substitute: bool
) -> schemas.ExplanationAnswer:
    """Explain one image's score and convert the explanation to the answer of `…/explain`.

    Raises:
        ProblemError: if the index has no such image, or the backend explains nothing.
    """
    metadata = stored_metadata(backend, image_id)
    searcher = backend.searcher
    if not isinstance(searcher, Explainer):
        backends = backends_of(request)
        able = [other.name for other in backends if isinstance(other.searcher, Explainer)]
        detail = f"backend: {backend.name!r} cannot explain scores; these can: {', '.join(able)}"
        raise ProblemError("invalid-parameter", detail, "backend")
    start = perf_counter()
    explanation = searcher.explain(q, image_id, substitute=substitute)
    record_of(request.scope).stages["explain"] = (perf_counter() - start) * MS
    return schemas.ExplanationAnswer(
        query=q,
        backend=backend.name,
        index_version=backends_of(request).version,
        image_id=image_id,
        url=photo_url(request, backend, image_id),
        metadata=metadata,
        score=explanation.score,
        terms=[schemas.TermAnswer.model_validate(term) for term in explanation.terms],
        coverage=explanation.coverage,
        against=explanation.against,
    )
