"""Searches an index in shards; answers are those of one index with all images."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.fields.kinds import Kind
from indexer.filters.expression import Filter
from indexer.filters.facets import Value
from indexer.query.parse import parsed, searchable
from indexer.query.query import Query
from indexer.search.api import (
    Condition,
    Explanation,
    Hit,
    Matching,
    SearchResult,
    SimilarResult,
    Timings,
    ids_of,
)
from indexer.search.browsing import Browsed, Page, Survey
from indexer.search.sharded.asking import Asking
from indexer.search.sharded.facts import Facts
from indexer.search.sharded.shards import ThoseThere
from indexer.search.sharded.tasks import (
    Best,
    Browse,
    Count,
    Explain,
    Frequencies,
    Ids,
    Metadata,
    Reading,
    Terms,
)
from indexer.search.terms.query_by_image import image_query, images_and_words, repeated_terms
from indexer.search.terms.query_reader import ReadQuery
from indexer.search.terms.words import Completion, HeldWord, HeldWords, WordList
from indexer.shards import shard_name
from indexer.store.commit import Commit


class ShardedSearcher:
    """A `Searcher` and `Explainer` that asks all shards; safe from any thread.

    Attributes:
        quick: whether a search takes about a millisecond at most.
        engine: of the shards.

    Args:
        asking: the shards.
    """

    quick = False
    engine = "shards"

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: ShardsFilter | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        """The k best images for a text; see `Searcher.search`."""
        start = _started(k)
        wanted = searchable(query)
        within = _filter(allowed)

        def plan() -> Best:
            reading, facts = self._asking.read(
                wanted, substitute, words=min_coverage is not None, fields=within is not None
            )
            return Best(facts, reading, k, within, min_coverage)

        task, results = self._asking.all(plan)
        read = task.reading.read_query
        return SearchResult(
            best_hits(results, k),
            read.unknown,
            _timings(start),
            rare=read.rare,
            substitutions=read.substitutions,
            conditions=added_conditions([one.conditions for one in results]),
        )

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: ShardsFilter | None = None,
    ) -> SimilarResult:
        """The k images most similar to indexed ones; see `Searcher.similar`."""
        start = _started(k)
        ids, wanted = ids_of(image_id), parsed(words)
        added = Counter[str]()
        for terms in self._asking.by_owner(ids, lambda: (Facts(), Terms)):
            added.update(terms)

        def plan() -> Best:
            reading, facts = self._asking.read(wanted, True, fields=allowed is not None)
            read = reading.read_query
            held = {term: self._asking.holds(term) for term in read.terms.split()}
            counts = images_and_words(added, [term for term in read.terms.split() if held[term]])
            facts = replace(facts, held={**facts.held, **held})
            read = read._replace(terms=repeated_terms(counts))
            return _best_of_terms(facts, read, k + len(ids), allowed)

        return self._similar(plan, k, ids, start)

    def similar_to(
        self, impacts: Mapping[str, int], k: int = 10, *, allowed: ShardsFilter | None = None
    ) -> SimilarResult:
        """The k images most similar to one with these impacts; see `PhotoSearcher`."""
        start = _started(k)

        def plan() -> Best:
            held = {term: self._asking.holds(term) for term in impacts}
            counts = image_query({term: n for term, n in impacts.items() if held[term]})
            facts = Facts(held, kinds=None if allowed is None else self._asking.kinds)
            read = ReadQuery(repeated_terms(counts), [], [], [], [])
            return _best_of_terms(facts, read, k, allowed)

        return self._similar(plan, k, (), start)

    def _similar(
        self, plan: Callable[[], Best], k: int, without: Sequence[str], start: float
    ) -> SimilarResult:
        """The best images of a plan, but for some."""
        task, results = self._asking.all(plan)
        read = task.reading.read_query
        return SimilarResult(
            best_hits(results, k, without),
            read.unknown,
            _timings(start),
            dict(Counter(read.terms.split())),
            rare=read.rare,
            substitutions=read.substitutions,
            conditions=added_conditions([one.conditions for one in results]),
        )

    def browse(
        self,
        query: str,
        page: Page,
        *,
        substitute: bool = True,
        allowed: ShardsFilter | None = None,
        min_coverage: float | None = None,
    ) -> Browsed:
        """A page of all images that match; see `Browsable`."""
        start = time.perf_counter()
        wanted = searchable(query) if query.strip() else Query.plain(query)
        within = _filter(allowed)

        def plan() -> Browse:
            reading, facts = self._asking.read(
                wanted, substitute, words=min_coverage is not None, fields=True
            )
            return Browse(facts, reading, page, within, min_coverage)

        _, surveys = self._asking.all(plan)
        return merged_surveys(surveys, page).browsed(page, _timings(start).total_ms)

    def ids(self, allowed: ShardsFilter) -> list[str]:
        """The ids of the images that a filter lets through, sorted; see `Browsable`."""
        _, found = self._asking.all(lambda: Ids(Facts(kinds=self._asking.kinds), allowed.filter))
        return sorted(image_id for own in found for image_id in own)

    def field_index(self) -> ShardsFields:
        """The typed fields of the images."""
        self._asking.look(Facts(kinds={}))
        return ShardsFields(self._asking.kinds, self._count)

    def _count(self, whole: Filter) -> int:
        _, found = self._asking.all(lambda: Count(Facts(kinds=self._asking.kinds), whole))
        return sum(found)

    def partial(self) -> LenientSearcher:
        """See `Divided.partial`."""
        return LenientSearcher(self._asking, ThoseThere(self._asking.shards))

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; see `Searcher.metadata`."""
        [found] = self._asking.by_owner([image_id], lambda: (Facts(), Metadata))
        return found

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """Explain one image's score for a text; see `Explainer.explain`."""
        return self.explain_all(query, [image_id], substitute=substitute)[0]

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
        grounded: bool = True,
    ) -> list[Explanation]:
        """Explain many images' scores; see `Explainer.explain_all`."""

        def plan() -> Any:
            if not isinstance(query, str | Query):
                return Facts(), lambda own: Explain(Facts(), query, own, grounded)
            reading, facts = self._asking.read(parsed(query), substitute, words=True)
            return facts, lambda own: Explain(facts, reading, own, grounded)

        return self._asking.by_owner(image_ids, plan)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        """Queries whose last word is one of the index; see `Suggester.complete`."""
        return self._words.held().complete(text, most)

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        """The words of the index nearest to one; see `Suggester.correct`."""
        return self._words.held().correct(word, most)

    @cached_property
    def _words(self) -> ShardsWords:
        return ShardsWords(self._asking, WordList(self._asking.language.tokenizer.vocabulary))

    def warm_up(self) -> None:
        """Learn which terms and fields there are, before a query waits for it."""
        vocabulary = self._asking.language.tokenizer.vocabulary
        self._asking.look(Facts(dict.fromkeys(vocabulary, False), kinds={}))
        self.complete("a")

    def __len__(self) -> int:
        return self._asking.look(Facts())

    def close(self) -> None:
        """Close the shards."""
        self._asking.shards.close()


class LenientSearcher(ShardedSearcher):
    """Does without shards that do not answer; for one request.

    Args:
        asking: all shards.
        there: those that answer.
    """

    def __init__(self, asking: Asking, there: ThoseThere) -> None:
        super().__init__(asking.over(there))
        self._there = there

    @property
    def missing_shards(self) -> list[str]:
        """The shards that did not answer."""
        return [shard_name(number) for number in sorted(self._there.missing)]


def _best_of_terms(facts: Facts, read: ReadQuery, k: int, allowed: ShardsFilter | None) -> Best:
    return Best(facts, Reading(Query.plain(""), read, []), k, _filter(allowed))


def _filter(allowed: ShardsFilter | None) -> Filter | None:
    return None if allowed is None else allowed.filter


def _started(k: int) -> float:
    """Now, at the start of a search for k images."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return time.perf_counter()


def _timings(start: float) -> Timings:
    milliseconds = 1000 * (time.perf_counter() - start)
    return Timings(0.0, milliseconds, milliseconds)


def best_hits(results: Sequence[SearchResult], k: int, without: Sequence[str] = ()) -> list[Hit]:
    """The k best hits of all shards, but for some images.

    Args:
        results: of all shards, each with its best hits; their ranks are changed.
        k: hits at most.
        without: ids of images to leave out.
    """
    hits = [hit for result in results for hit in result.hits if hit.image_id not in without]
    hits.sort(key=lambda hit: (-hit.score, hit.image_id))
    for rank, hit in enumerate(hits[:k], start=1):
        hit.rank = rank
    return hits[:k]


def added_conditions(parts: Sequence[Sequence[Condition]]) -> list[Condition]:
    """The conditions of a query, with the images of all shards."""
    return [
        replace(same[0], images=sum(one.images for one in same))
        for same in zip(*parts, strict=True)
    ]


def merged_surveys(surveys: Sequence[Survey], page: Page) -> Survey:
    """What all shards found; those without a value come last, ties are in the order of ids."""
    found = [pair for one in surveys for pair in zip(one.values, one.hits, strict=True)]
    found.sort(key=lambda pair: pair[1].image_id)
    first = [(value, hit) for value, hit in found if value is not None]
    first.sort(key=lambda pair: pair[0], reverse=page.falling)
    pairs = [*first, *((value, hit) for value, hit in found if value is None)]
    counts: dict[str, Counter[Value]] = {facet: Counter() for facet in page.facets}
    for one in surveys:
        for facet, own in one.counts.items():
            counts[facet].update(own)
    words = surveys[0].matching
    conditions = added_conditions([one.matching.conditions for one in surveys])
    return Survey(
        [hit for _, hit in pairs],
        [value for value, _ in pairs],
        sum(one.total for one in surveys),
        counts,
        Matching(np.empty(0), words.unknown, words.rare, words.substitutions, conditions),
    )


class ShardsWords:
    """The words of all shards, counted again when a shard has another commit.

    Args:
        asking: the shards.
        words: of their vocabulary.
    """

    def __init__(self, asking: Asking, words: WordList) -> None:
        self._asking, self._words = asking, words
        self._counted: dict[int, tuple[Commit, NDArray[np.int64]]] = {}
        self._held: HeldWords | None = None
        self._lock = Lock()

    def held(self) -> HeldWords:
        """The words that images of any shard have now."""
        with self._lock:
            asked = {
                number: Frequencies(self._counted[number][0] if number in self._counted else None)
                for number in range(len(self._asking.shards))
            }
            newer = {
                number: (found.commit, found.result)
                for number, found in self._asking.shards.ask(asked).items()
                if found.result is not None
            }
            if newer or self._held is None:
                if self._counted:
                    self._asking.forget_held()
                self._counted |= newer
                counts = np.sum([own for _, own in self._counted.values()], axis=0)
                self._held = HeldWords(self._words, counts, self._asking.holds)
            return self._held


@dataclass(frozen=True)
class ShardsFilter:
    """What a filter lets through, wherever it is.

    Attributes:
        filter: for each shard to apply.
        images: that it let through when it was first applied.
    """

    filter: Filter
    images: int


@dataclass(frozen=True)
class ShardsFields:
    """The fields of all shards.

    Attributes:
        kinds: of each field.
        counted: applies a filter, and counts what it lets through.
    """

    kinds: Mapping[str, Kind]
    counted: Callable[[Filter], int]

    def allowed(self, whole: Filter) -> ShardsFilter:
        """What a filter lets through; see `Fields`."""
        return ShardsFilter(whole, self.counted(whole))

    def count(self, allowed: ShardsFilter) -> int:
        """How many images a filter lets through."""
        return allowed.images
