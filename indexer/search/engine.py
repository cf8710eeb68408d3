"""What an engine is, and the order of hits that all engines keep.

THE ORDER OF HITS. Hits fall by score; equal scores are in the order of the image ids, which are
compared as Python compares texts. Where a field sorts, its values decide in place of the score,
images without a value come last, and equal values are in the order of the image ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from indexer.answer import Position, RefusedError, Version
from sparta.json_values import Json

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.expression import Filter

Value = float | str | None  # by which an image is ordered


def hit_order(image_id: str, score: float) -> tuple[float, str]:
    """The key that sorts hits."""
    return -score, image_id


def value_order(pairs: Iterable[tuple[Value, str]], falling: bool) -> list[int]:
    """The places of values and image ids in the order of a field."""
    numbered = sorted(enumerate(pairs), key=lambda one: one[1][1])
    known: list[tuple[Any, int]] = [(own[0], n) for n, own in numbered if own[0] is not None]
    known.sort(key=lambda one: one[0], reverse=falling)
    return [n for _, n in known] + [n for n, own in numbered if own[0] is None]


def is_before(position: Position, value: Value, image_id: str, falling: bool) -> bool:
    """Whether an image comes after a position.

    Raises RefusedError if one value is a text and the other is a number.
    """
    if value == position.value:
        return image_id > position.image_id
    if value is None or position.value is None:
        return value is None
    if isinstance(value, str) and isinstance(position.value, str):
        return (value < position.value) == falling
    if isinstance(value, str) or isinstance(position.value, str):
        raise RefusedError("cursor", "it is of another order; leave it out to begin anew")
    return (value < position.value) == falling


class Capability(StrEnum):
    """What an engine can do."""

    FILTER = auto()  # filters, counts and ids of images by fields
    REQUIRE = auto()  # required and excluded words, and weights
    COVERAGE = auto()  # a least coverage
    BROWSE = auto()  # totals, facets, orders by fields, and searches without words
    EXPLAIN = auto()  # scores term by term
    SIMILAR = auto()  # query by image
    PHOTO = auto()  # query by the impacts of a photo that is sent
    SUGGEST = auto()  # words of the index
    QUICK = auto()  # a search takes about a millisecond at most


class Needs(NamedTuple):
    """A word as engines test it: an image has the word if it has enough of each term.

    Attributes:
        least: term → the smallest impact that is enough; no image has a word without terms.
        required: whether images must have the word, or must not; None if they may.
        weight: the word's share of the query's weight.
    """

    least: tuple[tuple[int, int], ...]
    required: bool | None = None
    weight: float = 0.0


class Plan(NamedTuple):
    """What an engine is asked, wherever it runs.

    Attributes:
        terms: vocabulary id → how often the query contains the term.
        signed: words that images must or must not have.
        weighed: all words with their weights, where a least coverage is wanted.
        min_coverage: of images that may be found.
        filter: images that may be found; None for all.
        kinds: of the fields of the whole index, where the plan needs fields.
        everything: whether all images match that may be found, with a score of 0.
        like: images that are left out; a dense model finds those nearest to them.
        text: for a dense model.
    """

    terms: Mapping[int, int]
    signed: tuple[Needs, ...] = ()
    weighed: tuple[Needs, ...] = ()
    min_coverage: float = 0.0
    filter: Filter | None = None
    kinds: Mapping[str, Kind] | None = None
    everything: bool = False
    like: tuple[str, ...] = ()
    text: str = ""


class Found(NamedTuple):
    """Images in the order of hits.

    Attributes:
        version: that answered.
        image_ids: of the images.
        scores: of the images.
        metadata: of the images.
        having: how many images of the index have each signed word of the plan.
        views: of a multi-view model, the nearest view of each image; None for other engines.
        unknown: words that a dense model does not know.
        encode_ms: of embedding a text.
        missing_shards: names of shards that did not answer.
        similarities: of the images, where the first were re-ranked by them; None elsewhere, and
            for other images.
    """

    version: Version
    image_ids: list[str]
    scores: list[float]
    metadata: list[Json]
    having: Sequence[int] = ()
    views: list[int] | None = None
    unknown: Sequence[str] = ()
    encode_ms: float = 0.0
    missing_shards: Sequence[str] = ()
    similarities: list[float | None] | None = None

    def at(self, places: Sequence[int]) -> Found:
        """Some of the images."""
        return self._replace(
            image_ids=[self.image_ids[n] for n in places],
            scores=[self.scores[n] for n in places],
            metadata=[self.metadata[n] for n in places],
            views=None if self.views is None else [self.views[n] for n in places],
            similarities=self.similarities and [self.similarities[n] for n in places],
        )


class Page(NamedTuple):
    """What is wanted of all images that match.

    Attributes:
        k: hits at most.
        offset: hits before the first one.
        sort: a field to sort by, with a minus for the largest first; None for the score, or without
            words for the image id.
        facets: fields to count, dates with a period: `taken:year`.
        after: where the page begins, in place of an offset.
    """

    k: int
    offset: int = 0
    sort: str | None = None
    facets: tuple[str, ...] = ()
    after: Position | None = None

    @property
    def falling(self) -> bool:
        """Whether the largest value comes first."""
        return self.sort is None or self.sort.startswith("-")


class Survey(NamedTuple):
    """All images that match, before the page is cut.

    Attributes:
        found: the first in the order of the page: `offset` + `k`, or `k` after its position.
        values: by which each of these is ordered.
        total: images that match.
        counts: values of fields over all of them, by facet.
    """

    found: Found
    values: list[Value]
    total: int
    counts: dict[str, Counter[str | float | bool]]


class Documents(NamedTuple):
    """What an index stores of some images.

    Attributes:
        version: that answered.
        metadata: of the images.
        terms: [m] vocabulary ids.
        impacts: [d, m] of the images for the terms, 0 for none.
        groundings: [d] as `indexer.grounding.pack` returns them; None if they were not wanted.
    """

    version: Version
    metadata: list[Json]
    terms: list[int]
    impacts: NDArray[np.int64]
    groundings: list[bytes] | None


# Asks for some images and terms, with their groundings or without, in one version of the index.
AskDocuments = Callable[[Sequence[str], Sequence[int] | None, bool], Documents]


class Statistics(NamedTuple):
    """Facts of one version of an index.

    Attributes:
        version: that answered.
        images: how many there are.
        missing_images: images of the index that the engine cannot find.
        largest: [n] the largest impact of any image for each term, 0 if no image has it.
        frequencies: [n] in how many images each term has an impact.
        bounds: [2, V] at least the frequencies and the largest impacts of all terms, known at once:
            deleted images count until a merge.
        kinds: of all fields.
    """

    version: Version
    images: int
    missing_images: int
    largest: NDArray[np.int64] | None = None
    frequencies: NDArray[np.int64] | None = None
    bounds: NDArray[np.int64] | None = None
    kinds: Mapping[str, Kind] | None = None


Fact = Literal["largest", "frequencies", "bounds", "kinds"]  # of `Statistics`, None if not asked


class Engine(Protocol):
    """Finds images by plans. Immutable but for remote shards, and safe from any thread.

    Attributes:
        can: what it can do.
        name: as metrics show it.
    """

    can: frozenset[Capability]
    name: str

    def statistics(self, terms: Sequence[int] = (), *facts: Fact) -> Statistics:
        """Facts of the index and of some terms; raises UnavailableError."""
        ...

    def top(self, plan: Plan, k: int) -> Found:
        """The k best images.

        Raises:
            FilterError: if the filter does not fit the fields.
            UnknownImageError: if the plan has an image that the index lacks.
            RefusedError: if the engine cannot answer the plan exactly.
            UnavailableError: if a model cannot be opened, or a server or shard does not answer.
        """
        ...

    def survey(self, plan: Plan, page: Page) -> Survey:
        """Count all images that match, and order as many as a page needs.

        Raises:
            FilterError: if the filter, the order or a facet does not fit the fields.
            RefusedError: if the page begins at a position of another order.
            UnavailableError: as `top`.
        """
        ...

    def documents(
        self, image_ids: Sequence[str], terms: Sequence[int] | None, grounded: bool = False
    ) -> Documents:
        """What is stored of some images, for some terms; None for all terms of the images, rising.

        Raises UnknownImageError if the index lacks one of the images.
        """
        ...

    def refreshed(self) -> Engine | None:
        """The engine at the newest commit, None if this is at it; both are to be closed.

        Raises ReplacedError if the newest commit does not continue this one.
        """
        ...

    def close(self) -> None:
        """Close the files."""
        ...
