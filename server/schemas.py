"""Schemas of the server's JSON answers, from which `/docs` is generated."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from sparta.json_values import Json

# As the indexer's, whose module would load NumPy into every client.
Box = tuple[float, float, float, float]


INDEX_VERSION = Field(
    description="Version of the index that gave the answer, as in X-Index-Version: answers of two "
    "versions may differ"
)
URL = Field(description="Path of the photo on this server; null without a photos folder")
METADATA = Field(description="Metadata stored in the index")
MISSING_IMAGES = Field(
    default=0,
    description="Images of the index that a dense model does not find, having no vectors of them",
)
RARE = Field(
    description="Words of the query that the model rarely saw in training: hits for them may be "
    "wrong; empty if the index does not say which words those are"
)


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class LabelAnswer(_Answer):
    """The label token that won the maximum."""

    token: str = Field(description="The word piece")
    words: str = Field(description="The full label of its region, attribute first")


class TermAnswer(_Answer):
    """What one term of the query contributes to the score of one image."""

    term: str = Field(description="The word piece as the index spells it")
    word: str = Field(description="The word of the query it comes from")
    count: int = Field(description="How often the query contains it; 0 if its word is excluded")
    impact: int = Field(description="The image's impact for the term, 0 if it has none")
    score: float = Field(description="count times impact")
    region: int | None = Field(
        description="The region that won the maximum, itself or by its label; null if unknown"
    )
    box: Box | None = Field(
        description="x1, y1, x2, y2 of the region, relative to the photo's width and height"
    )
    label: LabelAnswer | None = Field(
        description="The label token that won; null if the region itself won, or if unknown"
    )
    similarity: float | None = Field(
        description="Similarity of the term to the word it replaces; null if the query contains it"
    )
    sign: str = Field(description="+ if photos must have its word, - if they must not, else empty")


class HitAnswer(_Answer):
    """One image found by a search."""

    rank: int = Field(description="1 for the best hit")
    image_id: str = Field(description="Path of the photo in the photos folder")
    score: float = Field(
        description="Sum of the terms' scores, or a dense model's cosine similarity"
    )
    url: str | None = URL
    metadata: Json = METADATA
    view: int | None = Field(
        description="The nearest view of the photo, from 0, for a multi-view model; else null"
    )
    similarity: float | None = Field(
        default=None,
        description="Of a re-ranked hit the dual encoder's cosine of text and photo, which orders "
        "it in place of the score; else null",
    )
    coverage: float | None = Field(
        description="Share, 0 to 1, of the query's weight that belongs to words which the photo "
        "has; null without explain=true and min_coverage, and for a dense model"
    )
    # Filled with the explanations of the searcher as they are: copying each to a `TermAnswer` would
    # take longer than explaining.
    explanation: SerializeAsAny[list[TermAnswer]] | None = Field(
        description="The score term by term; null unless explain=true and the backend explains"
    )


class TimingsAnswer(_Answer):
    """Time spent on one query, in milliseconds."""

    tokenise_ms: float = Field(
        description="Splitting the query into terms, or reading the terms of an image"
    )
    encode_ms: float = Field(
        description="Embedding the text with a dense model, or for re-ranking; else 0"
    )
    search_ms: float = Field(description="Finding the hits")
    total_ms: float = Field(description="The whole search, without explanations")
    explain_ms: float | None = Field(
        default=None, description="Explaining all hits; null if nothing is explained"
    )


class SubstitutionAnswer(_Answer):
    """A word of the query that is misspelt or not in the index, and what was searched for it."""

    word: str = Field(description="The word of the query")
    term: str = Field(description="The correct word, or its substitute, a trained term")
    similarity: float | None = Field(
        description="Cosine similarity of the two; null if the word was misspelt"
    )


class BucketAnswer(_Answer):
    """One value of a facet."""

    value: str | float | bool = Field(description="A date as its period")
    count: int = Field(description="Matching photos that have it")


class CorrectionAnswer(_Answer):
    """A misspelt or unknown word, and the words of the index that are spelled most like it."""

    word: str = Field(description="The word of the query")
    words: list[str] = Field(description="The nearest first")


class ConditionAnswer(_Answer):
    """A word of the query with a sign."""

    word: str = Field(description="The word of the query, without its sign")
    sign: str = Field(description="+ if photos must have the word, - if they must not")
    images: int = Field(description="How many photos have the word")


class QueryTerm(_Answer):
    """One term of the query made from an image."""

    term: str = Field(description="The word piece as the index spells it")
    count: int = Field(description="How often the query contains it")


class SearchAnswer(BaseModel):
    """Hits by descending score, ties by image id."""

    query: str = Field(default="", description="The words")
    backend: str
    index_version: str = INDEX_VERSION
    hits: list[HitAnswer]
    unknown: list[str] = Field(
        description="Words of the query that the backend does not know and did not replace"
    )
    rare: list[str] = RARE
    corrections: list[CorrectionAnswer] = Field(
        description="Misspelt and unknown words for which the index has words of similar spelling"
    )
    substitutions: list[SubstitutionAnswer] = Field(
        description="Words of the query in whose place another was searched; `substitute=false` "
        "searches them as typed"
    )
    conditions: list[ConditionAnswer] = Field(
        description="Words that photos must have (+) or must not have (-)"
    )
    terms: list[QueryTerm] = Field(
        description="The terms of a query made of images, which are the top ten of the images and "
        "those of the words, by descending count; else empty"
    )
    timings: TimingsAnswer
    reranked: int = Field(
        default=0,
        description="How many hits, the first ones of the ranking, are ordered by their "
        "similarity; 0 without rerank",
    )
    missing_images: int = MISSING_IMAGES
    cursor: str | None = Field(
        default=None,
        description="Give it back with the same search for the hits after these; null if there are "
        "none, or too many were read before",
    )
    total: int | None = Field(
        default=None,
        description="All photos that match; null for a search by words without facets and order",
    )
    facets: dict[str, list[BucketAnswer]] | None = Field(
        default=None,
        description="The values that most matching photos have, by facet; null without facets",
    )
    partial: bool = Field(
        default=False, description="Whether photos of missing shards may be missing here"
    )
    missing_shards: list[str] = Field(
        default=[], description="Shards of the index that did not answer"
    )


class SearchAnswers(BaseModel):
    """The answers to several searches."""

    answers: list[SearchAnswer] = Field(description="One for each search, in their order")


class CountAnswer(BaseModel):
    """How many images a filter lets through."""

    backend: str
    index_version: str = INDEX_VERSION
    count: int


class FieldsAnswer(BaseModel):
    """The fields of a backend's images."""

    backend: str
    index_version: str = INDEX_VERSION
    fields: dict[str, str] = Field(
        description="Kind of each field: keyword, number, date, boolean or geo"
    )


class SuggestionAnswer(BaseModel):
    """A query with its last word completed or corrected."""

    text: str = Field(description="The whole query")
    word: str = Field(description="Its last word")
    images: int = Field(description="In how many photos the word has an impact")


class SuggestAnswer(BaseModel):
    """Suggestions, the words in the most photos first."""

    query: str
    index_version: str = INDEX_VERSION
    suggestions: list[SuggestionAnswer]


class SimilarAnswer(SearchAnswer):
    """Photos similar to one or several, by descending score, ties by image id."""

    image_id: str
    url: str | None = URL
    also: list[str] = Field(description="The other images")


class ExplanationAnswer(BaseModel):
    """The score of one image for a query, term by term."""

    query: str
    backend: str
    index_version: str = INDEX_VERSION
    image_id: str
    url: str | None = URL
    metadata: Json = METADATA
    score: float = Field(description="Sum of the terms' scores")
    terms: list[TermAnswer] = Field(
        description="The terms of the query that the index has, those that the image lacks "
        "included, those of excluded words last"
    )
    coverage: float | None = Field(
        description="Share, 0 to 1, of the query's weight that belongs to words which the image has"
    )
    against: list[str] = Field(
        description="Words of the query, with their signs, for which a search leaves the image out"
    )


class ImageAnswer(BaseModel):
    """One image of an index."""

    image_id: str
    backend: str
    url: str | None = URL
    metadata: Json = METADATA


WRITTEN = Field(
    default=None,
    description="Version of the index in which searches find the change; null with refresh=none",
)


class WriteAnswer(BaseModel):
    """An image was written."""

    image_id: str
    result: Literal["created", "replaced", "updated", "deleted"]
    metadata: Json | None = Field(
        default=None, description="All of it, after a change of metadata; else null"
    )
    index_version: str | None = WRITTEN


class DeleteAnswer(BaseModel):
    """Images were deleted."""

    deleted: int
    missing: list[str] = Field(description="Ids that the index lacked")
    index_version: str | None = WRITTEN


class BatchError(BaseModel):
    """A line of a batch that was not written."""

    line: int = Field(description="Its number, from 1")
    image_id: str | None = Field(description="Null if the line cannot be read")
    detail: str = Field(description="What is wrong with it")


class BatchAnswer(BaseModel):
    """The lines of a batch were written, but for the errors."""

    created: int = Field(default=0)
    replaced: int = Field(default=0)
    updated: int = Field(default=0, description="Images whose metadata changed")
    deleted: int = Field(default=0)
    errors: list[BatchError]
    index_version: str | None = WRITTEN


class BackendInfo(BaseModel):
    """One backend: a searcher that the server offers under a name."""

    name: str
    default: bool = Field(description="Whether requests without a backend use this one")
    images: int = Field(description="Number of images that it can find")
    missing_images: int = MISSING_IMAGES
    photos: bool = Field(description="Whether the server can show the photos")
    explains: bool = Field(description="Whether it can explain its scores")
    examples: list[str] = Field(description="Example queries")


class BackendList(BaseModel):
    """All backends of the server, the default one first."""

    backends: list[BackendInfo]


class Health(BaseModel):
    """The answer of a server that lives, or is ready."""

    status: str


class KeyInfo(_Answer):
    """What is known of an API key; not the key itself, of which a server has only a hash."""

    id: str = Field(description="By which it is listed and revoked")
    name: str = Field(description="Who or what uses it")
    scope: str = Field(description="What it allows: search, write, admin or metrics")
    created: datetime
    expires: datetime | None = Field(description="When it ends; null if it does not")


class KeyList(BaseModel):
    """All keys of a server."""

    keys: list[KeyInfo]


class SignIn(BaseModel):
    """The key to sign in with."""

    key: str


class Session(BaseModel):
    """Who sends the requests."""

    key: KeyInfo | None = Field(description="The key; null for requests that need none")
    allows: list[str] = Field(description="What the requests may do")


class Problem(BaseModel):
    """An error as defined by RFC 9457 (`application/problem+json`)."""

    type: str = Field(description="URN of the kind of error; about:blank for plain HTTP errors")
    title: str = Field(description="The kind of error in words")
    status: int = Field(description="The HTTP status")
    detail: str = Field(description="What is wrong with this request, and what to do")
    instance: str | None = Field(default=None, description="Path of the request, if it has one")
    field: str | None = Field(default=None, description="The parameter that caused it, if any")
