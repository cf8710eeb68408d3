"""What the tools answer: the answers of the server without what an agent has no use for."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from server.schemas import (
    Box,
    ExplanationAnswer,
    HitAnswer,
    SearchAnswer,
    SimilarAnswer,
    TermAnswer,
)

CONTINUED = "##"  # begins word pieces that are no words of their own
DIGITS = 3  # of a share, and of a box: a pixel of a thousand


class Found(BaseModel):
    """One photo."""

    image_id: str = Field(description="Names the photo in the other tools")
    score: float = Field(description="Comparable within one answer only")
    metadata: dict[str, Any] = Field(description="Width, height and what else the index stores")
    coverage: float | None = Field(
        description="Share, 0 to 1, of the query that the photo fits; null for a dense model"
    )
    words: dict[str, float] | None = Field(
        description="Each word that the photo matches, with its share of the score; null for a "
        "dense model"
    )


class Added(BaseModel):
    """A photo was added."""

    image_id: str = Field(description="Names the photo in the other tools")
    replaced: bool = Field(description="Whether another photo had the name, and is gone")


class Deleted(BaseModel):
    """Photos were deleted."""

    deleted: int
    missing: list[str] = Field(description="Names that no photo had")


class Search(BaseModel):
    """The photos that match a query best, the best first."""

    hits: list[Found]
    unknown: list[str] = Field(
        description="Words that no photo is indexed under: use other words for them"
    )
    rare: list[str] = Field(
        description="Words that the model rarely saw in training: photos for them may be wrong"
    )
    replaced: dict[str, str] = Field(
        description="Words that the index lacks, and the word searched in place of each"
    )
    conditions: dict[str, int] = Field(
        description="Words with a sign, and how many photos have each"
    )


class Similar(BaseModel):
    """The photos most similar to one, the most similar first."""

    hits: list[Found]
    words: list[str] = Field(description="Words that describe the photo best, best first")


class Word(BaseModel):
    """What one word contributes to the score of a photo."""

    word: str
    score: float = Field(description="0 if the photo does not match the word")
    box: Box | None = Field(
        description="Where in the photo: x1, y1, x2, y2 relative to its width and height. A long "
        "word may have several places, one for each of its pieces"
    )
    label: str | None = Field(description="What a detector calls the object there")


class Explanation(BaseModel):
    """Why a photo has its score for a query."""

    score: float
    words: list[Word]
    against: list[str] = Field(
        description="Words of the query, with their signs, for which searches leave the photo out"
    )


def search(answer: SearchAnswer) -> Search:
    """The answer to a search by text."""
    replaced = {found.word: found.term for found in answer.substitutions}
    conditions = {found.sign + found.word: found.images for found in answer.conditions}
    return Search(
        hits=_hits(answer.hits),
        unknown=answer.unknown,
        rare=answer.rare,
        replaced=replaced,
        conditions=conditions,
    )


def similar(answer: SimilarAnswer) -> Similar:
    """The answer to a search by image."""
    words = [term.term for term in answer.terms if not term.term.startswith(CONTINUED)]
    return Similar(hits=_hits(answer.hits), words=words)


def explanation(answer: ExplanationAnswer) -> Explanation:
    """The answer to the question why a photo has its score."""
    words = [
        Word(
            word=_shown(term),
            score=term.score,
            box=_rounded(term.box),
            label=term.label.words if term.label else None,
        )
        for term in answer.terms
        if term.sign != "-"
    ]
    return Explanation(score=answer.score, words=words, against=answer.against)


def _hits(hits: list[HitAnswer]) -> list[Found]:
    return [
        Found(
            image_id=hit.image_id,
            score=hit.score,
            metadata=hit.metadata,
            coverage=None if hit.coverage is None else round(hit.coverage, DIGITS),
            words=_words(hit),
        )
        for hit in hits
    ]


def _words(hit: HitAnswer) -> dict[str, float] | None:
    if hit.explanation is None:
        return None
    words: dict[str, float] = {}
    for term in hit.explanation:  # several terms may be pieces of one word
        if term.score:
            words[_shown(term)] = words.get(_shown(term), 0) + term.score
    return words


def _rounded(box: Box | None) -> Box | None:
    if box is None:
        return None
    x1, y1, x2, y2 = (round(side, DIGITS) for side in box)
    return x1, y1, x2, y2


def _shown(term: TermAnswer) -> str:
    return term.word if term.similarity is None else f"{term.word} → {term.term}"
