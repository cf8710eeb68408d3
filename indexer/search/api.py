"""The answers of a search, and the protocols of what gives them.

Every searcher is a `Searcher`. One whose scores are sums over terms is an `Explainer` too; test for
that with `isinstance(searcher, Explainer)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from indexer.store.commit import ReplacedError
from indexer.store.images import UnknownImageError
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.expression import Filter
    from indexer.grounding import Box, WinningLabel
    from indexer.query.query import Query, Sign
    from indexer.store.commit import Commit

__all__ = ["ReplacedError", "UnknownImageError"]
Allowed = NDArray[np.bool_]  # [N], the documents that may be found
# What the fields of a searcher let through, for the same searcher: flags of documents, or of a
# divided index the filter itself, as its shards number their documents by themselves.
Selection: TypeAlias = Any

WHOLE_PHOTO = 0.999  # share of the photo's area from which a box locates nothing


# The results of a query are not frozen: making a frozen one takes several times as long.
@dataclass(slots=True)
class Hit:
    """One image of an answer.

    Attributes:
        rank: 1 for the best.
        image_id: as in the feature store.
        score: sum over the query's terms of count × impact (equation 15 on quantised scores), or
            a dense model's cosine similarity.
        metadata: the image's stored metadata (width, height, …).
        view: for a multi-view model (MV-VSE), which view of the image was nearest, else None.
        coverage: the share, 0 to 1, of the query's weight that belongs to words which the image
            has; None unless the search had a least coverage.
    """

    rank: int
    image_id: str
    score: float
    metadata: dict[str, Any] = field(default_factory=dict)
    view: int | None = None
    coverage: float | None = None


@dataclass(slots=True)
class Timings:
    """Milliseconds spent on one query.

    Attributes:
        tokenise_ms: splitting the text into terms and finding unknown words.
        search_ms: finding the images.
        total_ms: the whole query.
        encode_ms: embedding the text with a dense model; 0 for the inverted index.
    """

    tokenise_ms: float
    search_ms: float
    total_ms: float
    encode_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Substitution:
    """A word of the query that the index lacks, and what was searched in its place.

    Attributes:
        word: as typed.
        term: its substitute, which the index has.
        similarity: cosine of the two, as the table of substitutes records it.
    """

    word: str
    term: str
    similarity: float


@dataclass(frozen=True, slots=True)
class Condition:
    """A word of the query that images must or must not have.

    Attributes:
        word: as typed, without its sign.
        sign: "+" if images must have it, "-" if they must not.
        images: how many images have it.
    """

    word: str
    sign: Sign
    images: int


@dataclass(slots=True)
class SearchResult:
    """Hits by descending score, ties by image id.

    Attributes:
        hits: at most k; fewer when fewer images share a term with the query.
        unknown: the query's words of which no word piece is in the index (for a dense model: in
            its vocabulary) and which no substitute replaced, each once.
        timings: milliseconds by step.
        rare: the query's words with a word piece, or a substitute, that training rarely saw, each
            once; none for a dense model.
        substitutions: the query's words that a substitute replaced, each once; none for a dense
            model.
        conditions: the query's words with a sign, in order.
    """

    hits: list[Hit]
    unknown: list[str]
    timings: Timings
    rare: list[str] = field(default_factory=list, kw_only=True)
    substitutions: list[Substitution] = field(default_factory=list, kw_only=True)
    conditions: list[Condition] = field(default_factory=list, kw_only=True)


@dataclass(slots=True)
class SimilarResult(SearchResult):
    """The images most similar to an image, or to several, without these.

    Attributes:
        terms: the query made of the images and words: terms with their counts, the largest first;
            empty for a dense model, which compares vectors.
    """

    terms: dict[str, int]


# Neither are explanations: an answer can have a hundred thousand of them.
@dataclass(slots=True)
class TermExplanation:
    """What one term of the query contributes to one image's score, and its grounding.

    Attributes:
        term: the word piece as the index spells it.
        word: the query's word it comes from.
        count: how often the query contains it; 0 for a term of an excluded word.
        impact: the image's impact for it (0 if the image has none).
        score: count × impact.
        region: which region won the maximum of equation 10, itself or by a token of its label;
            None if unknown.
        box: that region's x1, y1, x2, y2 relative to the photo, None if unknown.
        label: the label token that won, None if the region itself won.
        similarity: of the term to the word it replaces; None if the query contains the term.
        sign: of the word: "+" if images must have it, "-" if they must not, else "".
    """

    term: str
    word: str
    count: int
    impact: int
    score: float
    region: int | None
    box: Box | None
    label: WinningLabel | None
    similarity: float | None = None
    sign: Sign = ""

    @property
    def whole(self) -> bool:
        """Whether that region covers the whole photo."""
        if self.box is None:
            return False
        x1, y1, x2, y2 = self.box
        return (x2 - x1) * (y2 - y1) > WHOLE_PHOTO


@dataclass(slots=True)
class Explanation:
    """The score of one image for one query, term by term; the terms' scores sum to it.

    Attributes:
        image_id: of the image.
        score: of the image.
        terms: of the query, those of excluded words last.
        against: the query's words for which a search leaves the image out, with their signs.
        coverage: as of a `Hit`; None for a query that is no text.
    """

    image_id: str
    score: float
    terms: list[TermExplanation]
    against: list[str] = field(default_factory=list)
    coverage: float | None = None


def ids_of(image_id: str | Sequence[str]) -> list[str]:
    """One image id or several as a list, each once."""
    return [image_id] if isinstance(image_id, str) else list(dict.fromkeys(image_id))


@dataclass(slots=True)
class Matching:
    """All documents that share a term with a text.

    Attributes:
        scores: [N] of each document, 0 for those that are not found.
        unknown: see `SearchResult`.
        rare: likewise.
        substitutions: likewise.
        conditions: likewise.
    """

    scores: NDArray[np.float64]
    unknown: list[str]
    rare: list[str]
    substitutions: list[Substitution]
    conditions: list[Condition]


class UnavailableError(InputError):
    """Raised by a searcher opened on demand that cannot be opened; the text says why."""


class UnanswerableError(InputError):
    """Raised for a search that the engine cannot answer exactly; the text says what to do."""


class NoVectorError(InputError):
    """Raised by a dense searcher for an image that its model has not embedded; the text says so."""


class Searcher(Protocol):
    """Searches one collection of images: an inverted index, or the vectors of dense models."""

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Selection | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images for a text.

        Args:
            query: any text, of which `indexer.query.parse` has the grammar, or a read one.
            k: hits at most.
            substitute: whether words that the index lacks are replaced by the nearest trained
                terms, where the index has a table of substitutes; dense models have none.
            allowed: images that may be found, as the fields of this searcher let through; None for
                all.
            min_coverage: of the images that may be found, 0 to 1; then hits have their coverage.
                None for all images, without it.

        Raises:
            ValueError: if k is not positive.
            QueryError: if the query cannot be read, or has operators that the searcher lacks.
            InputError: if the searcher has no coverage.
        """
        ...

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Selection | None = None,
    ) -> SimilarResult:
        """The k images most similar to an indexed one, or to several, without these.

        Args:
            image_id: of the indexed one, or of several; they need not be allowed.
            k: hits at most.
            words: a query that the images should fit as well; it may only exclude.
            allowed: images that may be found, as the fields of this searcher let through; None for
                all.

        Raises:
            ValueError: if k is not positive.
            UnknownImageError: if the index has no such image.
            QueryError: if the words cannot be read, or the searcher takes none.
        """
        ...

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        ...

    def __len__(self) -> int:
        """Number of images."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


@runtime_checkable
class Follower(Searcher, Protocol):
    """A searcher of one commit of an index that may be written to.

    Attributes:
        commit: the one.
    """

    commit: Commit

    def refreshed(self) -> Searcher | None:
        """A searcher of the newest commit, None if this one is; both are to be closed.

        What is in the place of the index by now, as a restored snapshot, is opened anew.
        """
        ...

    def continued(self) -> Self | None:
        """As `refreshed`, but only for a commit that continues this one, whose files it shares.

        Raises:
            ReplacedError: if the newest commit is of another index or of a copy.
        """
        ...


class Fields(Protocol):
    """The typed fields of images."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kind of each field."""
        ...

    def allowed(self, whole: Filter) -> Selection:
        """What a filter lets through.

        Raises:
            FilterError: if no image has a field of the filter, or a condition does not fit the
                field's kind.
        """
        ...

    def count(self, allowed: Selection) -> int:
        """How many images a filter lets through."""
        ...


@runtime_checkable
class Filterable(Protocol):
    """A searcher of images with typed fields, of which a filter makes what is `allowed`."""

    def field_index(self) -> Fields:
        """The fields of its images.

        Raises:
            InputError: if they cannot be opened.
        """
        ...


@runtime_checkable
class Divided(Searcher, Protocol):
    """A searcher of an index in shards, some of which may not answer."""

    def partial(self) -> PartialSearcher:
        """A searcher for one request that does without the shards that do not answer."""
        ...


@runtime_checkable
class PartialSearcher(Searcher, Protocol):
    """A searcher that does without some shards."""

    @property
    def missing_shards(self) -> list[str]:
        """The shards that did not answer."""
        ...


@runtime_checkable
class Preparable(Protocol):
    """A searcher whose first explanations would wait until Java runs."""

    def prepare_explaining(self) -> None:
        """Start in a thread what explains hits, unless that was done; returns at once."""
        ...


@runtime_checkable
class PhotoSearcher(Protocol):
    """A searcher of images by the terms of one that it does not have."""

    def similar_to(
        self, impacts: Mapping[str, int], k: int = 10, *, allowed: Selection | None = None
    ) -> SimilarResult:
        """The k images most similar to one that was encoded as those of the index.

        Args:
            impacts: terms of the index with the image's impacts, by ascending term id.
            k: hits at most.
            allowed: images that may be found, as the fields of this searcher let through; None for
                all.

        Raises:
            ValueError: if k is not positive.
        """
        ...


@runtime_checkable
class Explainer(Protocol):
    """A searcher whose scores are sums over terms, and can be explained term by term."""

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text, searched with or without substitutes.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        ...

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
        grounded: bool = True,
    ) -> list[Explanation]:
        """Explain the scores of many images: much faster than one by one.

        Args:
            query: a text, or terms of the index with their counts.
            image_ids: of the images.
            substitute: whether a text was searched with substitutes.
            grounded: whether to say what won each term, which is not in memory.

        Raises:
            UnknownImageError: if the index lacks one of the images.
        """
        ...
