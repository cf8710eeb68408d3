"""What the server's answers look like; `/docs` is made from these."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from indexer.grounding import Box


class _Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


class LabelAnswer(_Answer):
    """A label token that won the maximum."""

    token: str = Field(description="The word piece", examples=["dog"])
    words: str = Field(
        description="All that its region is labelled, attribute first", examples=["brown dog"]
    )


class TermAnswer(_Answer):
    """Why one term of the query counted for one image."""

    term: str = Field(description="The word piece as the index spells it", examples=["dogs"])
    word: str = Field(description="The query's word it comes from", examples=["Dogs"])
    count: int = Field(description="How often the query holds it", examples=[1])
    impact: int = Field(description="The image's weight for it, 0 if none", examples=[181])
    score: float = Field(description="count times impact", examples=[181])
    region: int | None = Field(
        description="The region that won the maximum, itself or by a token of its label",
        examples=[3],
    )
    box: Box | None = Field(
        description="That region's x1, y1, x2, y2, relative to the photo's width and height",
        examples=[(0.25, 0.5, 0.75, 1.0)],
    )
    label: LabelAnswer | None = Field(
        description="The label token that won; null if the region itself did, or nothing is known"
    )


class HitAnswer(_Answer):
    """One image of an answer."""

    rank: int = Field(description="1 for the best", examples=[1])
    image_id: str = Field(
        description="The photo's path in its folder", examples=["beach/two dogs.jpg"]
    )
    score: float = Field(
        description="Sum of the terms' scores, or a dense model's cosine similarity",
        examples=[412],
    )
    url: str | None = Field(
        description="Where the photo is served; null if the server knows no photos folder",
        examples=["/v1/images/beach/two%20dogs.jpg/file"],
    )
    metadata: dict[str, Any] = Field(
        description="What the index stores beside the image",
        examples=[{"width": 640, "height": 480}],
    )
    view: int | None = Field(
        description="Which of a multi-view model's views of the photo was nearest, from 0; null "
        "for models of one view",
        examples=[None],
    )
    explanation: list[TermAnswer] | None = Field(
        description="The score term by term; null unless explain=true, and always null where the "
        "backend does not explain"
    )


class TimingsAnswer(_Answer):
    """Milliseconds spent on one query."""

    tokenise_ms: float = Field(
        description="Splitting the query into terms, or reading those of a photo", examples=[0.1]
    )
    encode_ms: float = Field(
        description="Embedding the text with a dense model; 0 where no such model runs",
        examples=[0],
    )
    search_ms: float = Field(examples=[1.1])
    total_ms: float = Field(description="All of these, without explaining", examples=[1.2])
    explain_ms: float | None = Field(
        default=None,
        description="Explaining all hits; null where nothing is explained",
        examples=[2.5],
    )


class SearchAnswer(BaseModel):
    """Hits by falling score, ties by image id."""

    query: str = Field(examples=["two dogs on a beach"])
    backend: str = Field(examples=["sparta"])
    hits: list[HitAnswer]
    unknown: list[str] = Field(
        description="The query's words that mean nothing to the backend", examples=[[]]
    )
    timings: TimingsAnswer


class QueryTerm(BaseModel):
    """One term of a photo that was asked for."""

    term: str = Field(description="The word piece as the index spells it", examples=["dog"])
    count: int = Field(description="How often the query holds it", examples=[31])


class SimilarAnswer(BaseModel):
    """Photos like one photo, by falling score, ties by image id."""

    image_id: str = Field(examples=["beach/two dogs.jpg"])
    url: str | None = Field(
        description="Where the photo itself is served", examples=["/v1/images/x.jpg/file"]
    )
    backend: str = Field(examples=["sparta"])
    terms: list[QueryTerm] = Field(
        description="The photo's strongest terms, which made the query, the strongest first; "
        "empty where a dense model compared vectors"
    )
    hits: list[HitAnswer]
    timings: TimingsAnswer


class ImageAnswer(BaseModel):
    """One image of an index."""

    image_id: str = Field(examples=["beach/two dogs.jpg"])
    backend: str = Field(examples=["sparta"])
    url: str | None = Field(examples=["/v1/images/beach/two%20dogs.jpg/file"])
    metadata: dict[str, Any] = Field(examples=[{"width": 640, "height": 480}])


class BackendInfo(BaseModel):
    """One searcher the server has under a name."""

    name: str = Field(examples=["sparta"])
    default: bool = Field(description="Whether it answers when no backend is named")
    images: int = Field(description="How many images it searches", examples=[5000])
    photos: bool = Field(description="Whether the server can show the photos")
    explains: bool = Field(description="Whether explain=true gives an explanation")
    examples: list[str] = Field(
        description="Queries worth trying", examples=[["two dogs on a beach"]]
    )


class BackendList(BaseModel):
    """All searchers of the server, the default one first."""

    backends: list[BackendInfo]


class Health(BaseModel):
    """Said by a server that can answer."""

    status: str = Field(examples=["ok"])
    version: str = Field(description="Of the visualsparta package", examples=["0.2.0"])


class Problem(BaseModel):
    """An error as RFC 9457 lays it down (`application/problem+json`)."""

    type: str = Field(description="A URN that names the kind; about:blank for plain HTTP errors")
    title: str = Field(description="The kind in words, the same every time")
    status: int = Field(description="The HTTP status, once more")
    detail: str = Field(description="What was wrong this time, and what to do")
    instance: str = Field(description="The path that was asked for")
    field: str | None = Field(default=None, description="The parameter at fault, if it was one")
