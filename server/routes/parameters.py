"""Query parameters that several endpoints share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from server.backends import Backend, backends_of

MAX_K = 1000
MAX_QUERY_LENGTH = 1000
# A character that is no white space to Python; the escapes alone are none to JSON Schema.
NOT_BLANK = r"[^\s\x1c-\x1f\x85]"


async def _backend(
    request: Request,
    backend: Annotated[
        str | None,
        Query(description="Name of a backend, with + written as %2B; by default the first one"),
    ] = None,
) -> Backend:
    backends = backends_of(request)
    return backends.get(backend)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the query is empty; give at least one word")
    return text


BackendParameter = Annotated[Backend, Depends(_backend)]
QueryParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description="What to search for, in plain words; a word given twice counts twice",
        examples=["two dogs on a beach"],
        json_schema_extra={"minLength": 1, "pattern": NOT_BLANK},
    ),
    AfterValidator(_not_blank),
]
CountParameter = Annotated[int, Query(ge=1, le=MAX_K, description="Largest number of hits")]
SubstituteParameter = Annotated[
    bool,
    Query(
        description="Replace words that the index lacks by the nearest trained terms, if the index "
        "has a table of substitutes; dense models have none"
    ),
]
ExplainParameter = Annotated[
    bool, Query(description="Explain each hit: the score of every term, and the region that won it")
]
