"""Suggestions while a query is typed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from indexer.search.words import Suggester
from server import schemas
from server.backends import backends_of
from server.problems import responses
from server.routes.hits import json_response
from server.routes.parameters import MAX_QUERY_LENGTH
from server.work import Work

MOST = 50

router = APIRouter(prefix="/v1")


@router.get(
    "/suggest",
    summary="Complete a query",
    response_model=schemas.SuggestAnswer,
    responses=responses("invalid-parameter", "overloaded"),
)
async def suggest(
    request: Request,
    q: Annotated[
        str, Query(max_length=MAX_QUERY_LENGTH, description="A query as far as it is typed")
    ],
    k: Annotated[int, Query(ge=1, le=MOST, description="Largest number of suggestions")] = 10,
) -> Response:
    """Queries whose last word is completed to words that the index holds.

    Those in the most photos come first. If no word begins like the last one, the words nearest to
    it are suggested. There are none after a space.
    """
    work: Work = request.app.state.work
    return await work.run(request, lambda _: json_response(_answer(request, q, k)))


def _answer(request: Request, q: str, k: int) -> schemas.SuggestAnswer:
    backends = backends_of(request)
    able = (one.searcher for one in backends if isinstance(one.searcher, Suggester))
    suggester = next(able, None)
    found = suggester.complete(q, k) if suggester else []
    return schemas.SuggestAnswer(
        query=q,
        index_version=backends.version,
        suggestions=[schemas.SuggestionAnswer(**one._asdict()) for one in found],
    )
