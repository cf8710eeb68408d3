"""What a shard is asked: tasks that can be sent to other processes, and done on its searcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexer.filters.expression import Filter
from indexer.filters.field_index import FieldIndex
from indexer.query.query import Query
from indexer.search.api import Explanation, SearchResult
from indexer.search.browsing import Page, Survey, survey
from indexer.search.lucene import LuceneSearcher
from indexer.search.sharded.facts import NO_FACTS, Facts
from indexer.search.terms.query_reader import ReadQuery, ReadWord
from indexer.store.commit import Commit

Result_co = TypeVar("Result_co", covariant=True)


class Task(Protocol[Result_co]):
    """Something to do on a shard."""

    @property
    def facts(self) -> Facts:
        """Of the whole index, which the result depends on."""
        ...

    def __call__(self, shard: LuceneSearcher) -> Result_co:
        """Do it."""
        ...


@dataclass(frozen=True)
class Reading:
    """A query as it was read for the whole index; for the shards the reader of this one query.

    Attributes:
        query: as it was parsed.
        read_query: its terms.
        all_words: its words, where they are needed.
    """

    query: Query
    read_query: ReadQuery
    all_words: list[ReadWord]

    def read(self, query: Query, substitute: bool) -> ReadQuery:
        """What was read."""
        return self.read_query

    def words(self, query: Query, substitute: bool) -> list[ReadWord]:
        """The words."""
        return self.all_words


@dataclass(frozen=True)
class Best:
    """The k best images."""

    facts: Facts
    reading: Reading
    k: int
    filter: Filter | None
    min_coverage: float | None = None

    def __call__(self, shard: LuceneSearcher) -> SearchResult:
        """Search."""
        among = shard.among(self.reading, self.facts.largest, self.facts.kinds)
        allowed = None if self.filter is None else among.field_index().allowed(self.filter)
        return among.search(
            self.reading.query, self.k, allowed=allowed, min_coverage=self.min_coverage
        )


@dataclass(frozen=True)
class Browse:
    """All images that match."""

    facts: Facts
    reading: Reading
    page: Page
    filter: Filter | None
    min_coverage: float | None

    def __call__(self, shard: LuceneSearcher) -> Survey:
        """Count and order them."""
        among = shard.among(self.reading, self.facts.largest, self.facts.kinds)
        allowed = None if self.filter is None else among.field_index().allowed(self.filter)
        return survey(
            among, self.reading.query, self.page, allowed=allowed, min_coverage=self.min_coverage
        )


@dataclass(frozen=True)
class Explain:
    """The scores of images of the shard, for a text or for terms with their counts."""

    facts: Facts
    query: Reading | Mapping[str, int]
    image_ids: Sequence[str]
    grounded: bool = True

    def __call__(self, shard: LuceneSearcher) -> list[Explanation]:
        """Explain them."""
        if not isinstance(self.query, Reading):
            return shard.explain_all(self.query, self.image_ids, grounded=self.grounded)
        among = shard.among(self.query, self.facts.largest)
        return among.explain_all(self.query.query, self.image_ids, grounded=self.grounded)


@dataclass(frozen=True)
class Metadata:
    """What is stored about some images of the shard."""

    image_ids: Sequence[str]
    facts: Facts = NO_FACTS

    def __call__(self, shard: LuceneSearcher) -> list[dict[str, Any]]:
        """Read it."""
        return [shard.metadata(image_id) for image_id in self.image_ids]


@dataclass(frozen=True)
class Terms:
    """The terms of some images of the shard, with their impacts."""

    image_ids: Sequence[str]
    facts: Facts = NO_FACTS

    def __call__(self, shard: LuceneSearcher) -> list[dict[str, int]]:
        """Read them."""
        return [shard.image_terms(image_id) for image_id in self.image_ids]


@dataclass(frozen=True)
class Count:
    """How many images a filter lets through, which shows that the fields allow it, too."""

    facts: Facts
    filter: Filter

    def __call__(self, shard: LuceneSearcher) -> int:
        """Count them."""
        return int(np.count_nonzero(_fields(shard, self.facts).allowed(self.filter)))


@dataclass(frozen=True)
class Ids:
    """The ids of the images that a filter lets through."""

    facts: Facts
    filter: Filter

    def __call__(self, shard: LuceneSearcher) -> list[str]:
        """Read them."""
        return shard.ids(_fields(shard, self.facts).allowed(self.filter))


@dataclass(frozen=True)
class Frequencies:
    """In how many images each word has an impact, unless the shard is still at a commit."""

    unless: Commit | None
    facts: Facts = NO_FACTS

    def __call__(self, shard: LuceneSearcher) -> NDArray[np.int64] | None:
        """Count them."""
        return None if shard.commit == self.unless else shard.word_frequencies()


@dataclass(frozen=True)
class Look:
    """Nothing but the facts, and the state of the shard."""

    facts: Facts = NO_FACTS

    def __call__(self, shard: LuceneSearcher) -> None:
        """Nothing."""


def _fields(shard: LuceneSearcher, facts: Facts) -> FieldIndex:
    assert facts.kinds is not None
    return shard.field_index().among(facts.kinds)
