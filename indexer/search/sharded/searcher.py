"""Searches an index in shards; answers are those of one index with all images."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from indexer.filters.expression import Filter
from indexer.query.parse import parsed, searchable
from indexer.query.query import Query
from indexer.search.api import Explanation, SearchResult, SimilarResult, Timings, ids_of
from indexer.search.browsing import Browsed, Page
from indexer.search.sharded.asking import Asking
from indexer.search.sharded.facts import Facts
from indexer.search.sharded.fields import ShardsFields, ShardsFilter
from indexer.search.sharded.merging import added_conditions, best_hits, merged_surveys
from indexer.search.sharded.shards import ThoseThere
from indexer.search.sharded.tasks import Best, Browse, Count, Explain, Ids, Metadata, Reading, Terms
from indexer.search.sharded.words import ShardsWords
from indexer.search.terms.query_by_image import image_query, images_and_words, repeated_terms
from indexer.search.terms.query_reader import ReadQuery
from indexer.search.terms.words import Completion, HeldWord, WordList
from indexer.shards import shard_name


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
            read = ReadQuery(repeated_terms(counts), [], [], [])
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
