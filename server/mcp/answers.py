"""What the tools answer: fields of the server's answers, without those an agent has no use for."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from server.schemas import Box, ConditionAnswer, CorrectionAnswer, QueryTerm, SubstitutionAnswer

DIGITS = 3  # of a share, and of a box: a pixel of a thousand


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, DIGITS)


def _rounded_box(box: Box | None) -> Box | None:
    if box is None:
        return None
    x1, y1, x2, y2 = (round(side, DIGITS) for side in box)
    return x1, y1, x2, y2


class _Selected(BaseModel):
    """Made of the attributes of the same names by `model_validate`."""

    model_config = ConfigDict(from_attributes=True)


class Label(_Selected):
    """What a detector calls the object."""

    words: str


class Term(_Selected):
    """What one term of the query contributes to the score of a photo."""

    term: str = Field(description="As the index spells it; ## begins the rest of a longer word")
    word: str = Field(description="The word of the query it comes from, or is searched in place of")
    score: float = Field(description="0 if the photo does not match the term")


class PlacedTerm(Term):
    """What one term contributes, and where in the photo it is."""

    sign: str = Field(description="- if photos must not have the word, + if they must, else empty")
    box: Annotated[Box | None, AfterValidator(_rounded_box)] = Field(
        description="Where in the photo: x1, y1, x2, y2 relative to its width and height"
    )
    label: Label | None


class Hit(_Selected):
    """One photo."""

    image_id: str = Field(description="Names the photo in the other tools")
    score: float = Field(description="Comparable within one answer only")
    metadata: dict[str, Any] = Field(description="Width, height and what else the index stores")
    coverage: Annotated[float | None, AfterValidator(_rounded)] = Field(
        description="Share, 0 to 1, of the query that the photo fits; null for a dense model"
    )
    explanation: list[Term] | None = Field(
        description="The score term by term; null for a dense model"
    )


class Search(_Selected):
    """The photos that match a query best, the best first."""

    hits: list[Hit]
    unknown: list[str] = Field(
        description="Words that no photo is indexed under: use other words for them"
    )
    rare: list[str] = Field(
        description="Words that the model rarely saw in training: photos for them may be wrong"
    )
    corrections: list[CorrectionAnswer] = Field(
        description="Unknown words, and words of the index that are spelled like them"
    )
    substitutions: list[SubstitutionAnswer] = Field(
        description="Words that the index lacks, and the term searched in place of each"
    )
    conditions: list[ConditionAnswer] = Field(
        description="Words with a sign, and how many photos have each"
    )


class Similar(_Selected):
    """The photos most similar to one, the most similar first."""

    hits: list[Hit]
    terms: list[QueryTerm] = Field(description="Terms that describe the photo best, best first")


class Explanation(_Selected):
    """Why a photo has its score for a query."""

    score: float
    terms: list[PlacedTerm]
    coverage: Annotated[float | None, AfterValidator(_rounded)] = Field(
        description="Share, 0 to 1, of the query that the photo fits"
    )
    against: list[str] = Field(
        description="Words of the query, with their signs, for which searches leave the photo out"
    )


class Added(BaseModel):
    """A photo was added."""

    image_id: str = Field(description="Names the photo in the other tools")
    replaced: bool = Field(description="Whether another photo had the name, and is gone")


class Deleted(BaseModel):
    """Photos were deleted."""

    deleted: int
    missing: list[str] = Field(description="Names that no photo had")
