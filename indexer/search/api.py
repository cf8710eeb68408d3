"""What every searcher answers, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Box = tuple[float, float, float, float]
WHOLE = 0.999  # share of the photo from which a box tells nothing of a place


# What every query makes is not frozen: that takes several times as long.
@dataclass(slots=True)
class Hit:
    """One image of an answer.

    Attributes:
        rank: 1 for the best.
        image_id: as in the feature store.
        score: sum over the query's terms of count × impact (equation 15 on quantised scores), or
            a dense model's cosine similarity.
        metadata: what the index stores beside the image (width, height, …).
        view: which of a multi-view model's views of the image was nearest, None without views.
    """

    rank: int
    image_id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    view: int | None = None


@dataclass(slots=True)
class Timings:
    """Milliseconds spent on one query.

    Attributes:
        tokenise_ms: splitting it into terms, finding those unknown.
        search_ms: finding the images.
        total_ms: everything.
        encode_ms: a dense model's embedding of the text; nothing of the kind runs in others.
    """

    tokenise_ms: float
    search_ms: float
    total_ms: float
    encode_ms: float = 0.0


@dataclass(slots=True)
class SearchResult:
    """Hits by falling score, ties by image id.

    Attributes:
        hits: at most k; fewer when fewer images share a term with the query.
        unknown: the query's words of which no word piece is in the index, or in the vocabulary
            of a dense model, each once.
        timings: where the time went.
    """

    hits: list[Hit]
    unknown: list[str]
    timings: Timings


@dataclass(slots=True)
class SimilarResult(SearchResult):
    """What is like an image, which itself is not among the hits; no word is unknown.

    Attributes:
        terms: what was asked for: the image's strongest terms, the strongest first, and how often
            each counts; none for a dense model, which compares vectors.
    """

    terms: dict[str, int]


@dataclass(frozen=True)
class WinningLabel:
    """A label token that won the maximum of equation 10.

    Attributes:
        token: the word piece.
        words: all that its region is labelled, attribute first, as far as the model read it.
    """

    token: str
    words: str


@dataclass(frozen=True)
class TermExplanation:
    """Why one term of the query counted for one image.

    Attributes:
        term: the word piece as the index spells it.
        word: the query's word it comes from.
        count: how often the query holds it.
        impact: the image's integer weight for it (0 if the image has none).
        score: count × impact.
        region: which region won the maximum of equation 10 (its grounding), itself or by a token
            of its label; None if unknown.
        box: that region's x1, y1, x2, y2 relative to the photo, None if unknown.
        label: the label token that won, None if the region itself did.
    """

    term: str
    word: str
    count: int
    impact: int
    score: float
    region: int | None
    box: Box | None
    label: WinningLabel | None

    @property
    def whole(self) -> bool:
        """Whether that region is the whole photo, and so no place in it."""
        if self.box is None:
            return False
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1) > WHOLE


@dataclass(frozen=True)
class Explanation:
    """The score of one image for one query, term by term; the terms' scores sum to it."""

    image_id: str
    score: float
    terms: list[TermExplanation]


class UnknownImageError(KeyError):
    """Raised when an image id is not in the index."""


class Searcher(Protocol):
    """A source of answers: the Lucene index, or the vectors of dense models beside it.

    Attributes:
        explains: whether scores are sums over terms, which `explain` can tell apart.
    """

    explains: bool

    def search(self, query: str, k: int = 10) -> SearchResult:
        """The k best images for a text.

        Raises:
            ValueError: if k is not positive.
        """
        ...

    def explain(self, query: str, image_id: str) -> Explanation:
        """Explain one image's score for a text.

        Raises:
            UnknownImageError: if the index has no such image.
            NotImplementedError: if the searcher does not explain.
        """
        ...

    def similar(self, image_id: str, k: int = 10) -> SimilarResult:
        """The k images most like one of the index, without itself.

        Raises:
            ValueError: if k is not positive.
            UnknownImageError: if the index has no such image.
        """
        ...

    def explain_terms(self, terms: Mapping[str, int], image_id: str) -> Explanation:
        """Explain one image's score for terms of the index that each count so often.

        Raises:
            UnknownImageError: if the index has no such image.
            NotImplementedError: if the searcher does not explain.
        """
        ...

    def metadata(self, image_id: str) -> dict[str, Any]:
        """What the index stores beside an image.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        ...

    def __len__(self) -> int:
        """Number of images."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...
