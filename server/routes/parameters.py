"""Query parameters that several endpoints share, and those of a search."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, Discriminator, FailFast, Tag, ValidationError
from pydantic_core import PydanticCustomError

from server.backends import Backend, backends_of

MAX_K = 1000
MAX_QUERY_LENGTH = 1000
MAX_FACETS = 10
MAX_QUERIES = 32  # of a body
MAX_CURSOR_LENGTH = 10_000
MAX_IMAGES = 20  # of a search by images
# A character that is no white space to Python; the escapes alone are none to JSON Schema.
NOT_BLANK = r"[^\s\x1c-\x1f\x85]"


BackendName = Annotated[
    str | None,
    Query(description="Name of a backend, with + written as %2B; by default the first one"),
]


async def _backend(request: Request, backend: BackendName = None) -> Backend:
    return backends_of(request).get(backend)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "the query is empty; give at least one word")
    return text


BackendParameter = Annotated[Backend, Depends(_backend)]
QUERY = (
    "What to search for, in plain words; a word given twice counts twice. +beach: photos must have "
    'the word; -dog: must not; beach^3: counts three times; +"fire truck": one word of all its '
    "pieces; a backslash makes an operator plain."
)
QueryParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description=QUERY,
        examples=["two dogs on a beach"],
        json_schema_extra={"minLength": 1, "pattern": NOT_BLANK},
    ),
    AfterValidator(_not_blank),
]
OptionalQueryParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description=f"{QUERY} Without words, all photos that the filter lets through are found, in "
        "the order of `sort`, else of their ids",
        examples=["two dogs on a beach"],
        json_schema_extra={"minLength": 1, "pattern": NOT_BLANK},
    ),
]
AlsoParameter = Annotated[
    list[str],
    FailFast(),
    Query(max_length=MAX_IMAGES - 1, description="Ids of further images to be similar to"),
]
WordsParameter = Annotated[
    str,
    Query(
        max_length=MAX_QUERY_LENGTH,
        description="A query that the photos should fit as well, which has half of the weight; it "
        "may only exclude",
        examples=["at night"],
    ),
]
CountParameter = Annotated[int, Query(ge=1, le=MAX_K, description="Largest number of hits")]
SubstituteParameter = Annotated[
    bool,
    Query(
        description="Replace words that the index lacks by the nearest trained terms, if the index "
        "has a table of substitutes; dense models have none"
    ),
]
CoverageParameter = Annotated[
    float | None,
    Query(
        ge=0,
        le=1,
        description="Smallest coverage of a hit, for backends that explain: the share of the "
        "query's weight that belongs to words which the photo has",
    ),
]
ExplainParameter = Annotated[
    bool, Query(description="Explain each hit: the score of every term, and the region that won it")
]


FILTER = "Photos that may be found: conditions on fields of their metadata; docs/filters.md"
FilterParameter = Annotated[
    str | None,
    Query(description=FILTER, examples=["taken:2024-06..2024-08 camera:canon -folder:raw"]),
]


class Search(BaseModel):
    """What a search is asked, however it is sent."""

    q: OptionalQueryParameter = ""
    backend: BackendName = None
    k: CountParameter = 10
    explain: ExplainParameter = False
    substitute: SubstituteParameter = True
    min_coverage: CoverageParameter = None
    offset: Annotated[int, Query(ge=0, le=MAX_K, description="Hits before the first one")] = 0
    cursor: Annotated[
        str | None,
        Query(
            max_length=MAX_CURSOR_LENGTH,
            description="`cursor` of an answer to the same search: the hits after those of the "
            "answer, whatever was written to the index meanwhile",
        ),
    ] = None
    sort: Annotated[
        str | None,
        Query(
            max_length=100,
            description="A field to sort all matching photos by, with - before it for the largest "
            "first; by default the score; not for dense models",
            examples=["-taken"],
        ),
    ] = None
    partial: Annotated[
        bool,
        Query(
            description="Of an index in shards: without the photos of shards that do not answer, "
            "which are named, in place of an error"
        ),
    ] = False


class SearchParameters(Search):
    """The query parameters of a search; `read_search` reads them."""

    filter: FilterParameter = None
    facets: Annotated[
        str,
        Query(
            max_length=500,
            description="Fields of which to count the values over all matching photos, separated "
            "by commas; dates with a period; not for dense models",
            examples=["camera,taken:year"],
        ),
    ] = ""

    @property
    def counted(self) -> list[str]:
        """The facets one by one."""
        return self.facets.split(",") if self.facets else []


class SearchBody(Search):
    """A search as the body of a request."""

    filter: Annotated[str | dict[str, Any] | None, Query(description=FILTER)] = None
    facets: Annotated[
        list[str],
        FailFast(),
        Query(
            max_length=MAX_FACETS,
            description="Fields of which to count the values over all matching photos; dates with "
            "a period; not for dense models",
            examples=[["camera", "taken:year"]],
        ),
    ] = []

    @property
    def counted(self) -> list[str]:
        """The facets one by one."""
        return self.facets


class Searches(BaseModel):
    """Several searches as the body of a request."""

    queries: Annotated[
        list[SearchBody],
        FailFast(),
        Query(min_length=1, max_length=MAX_QUERIES, description="Answered one by one, in order"),
    ]


def _kind_of_body(body: Any) -> str:
    several = isinstance(body, Searches) or (isinstance(body, dict) and "queries" in body)
    return SEVERAL if several else ONE


ONE, SEVERAL = "search", "searches"
OneOrSeveral = Annotated[
    Annotated[SearchBody, Tag(ONE)] | Annotated[Searches, Tag(SEVERAL)],
    Discriminator(_kind_of_body),
]


class CountBody(BaseModel):
    """What is counted."""

    filter: Annotated[str | dict[str, Any] | None, Query(description=FILTER)] = None
    backend: BackendName = None


def read_search(query_string: bytes) -> SearchParameters:
    """The parameters of a search, a repeated one as it comes last.

    FastAPI would take five times as long for them as pydantic: a tenth of a search's time.

    Args:
        query_string: of the request.

    Raises:
        RequestValidationError: if one is missing or wrong.
    """
    try:
        return SearchParameters.model_validate(dict(pairs_of(query_string)))
    except ValidationError as error:
        raise RequestValidationError(
            [{**one, "loc": ("query", *one["loc"])} for one in error.errors()]
        ) from error


def pairs_of(query_string: bytes) -> list[tuple[str, str]]:
    """Names and values: `urllib.parse.parse_qsl` with blank values, in a third of its time."""
    fields = query_string.decode("latin-1").replace("+", " ").split("&")
    found = [field.partition("=") for field in fields if field]
    return [(unquote(name), unquote(value)) for name, _, value in found]


def documented(model: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI documentation of query parameters that a route reads by itself: `openapi_extra`."""
    schema = model.model_json_schema()
    listed = [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", []),
            "schema": values,
        }
        for name, values in schema["properties"].items()
    ]
    return {"parameters": [one | {"description": one["schema"]["description"]} for one in listed]}
