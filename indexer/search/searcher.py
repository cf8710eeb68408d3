"""The one searcher: a text, images or a photo → a plan → one engine → one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial as partial_of
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from indexer.answer import (
    Answer,
    Explanation,
    Position,
    QueryTerm,
    RefusedError,
    UnavailableError,
    Version,
)
from indexer.query import Query, QueryError, parsed, plain_text, searchable, spoken
from indexer.search.engine import AskDocuments, Capability, Documents, Engine, Page, Plan, Survey
from indexer.search.explanations import Explain, Explaining
from indexer.search.pages import finish, ranked, surveyed
from indexer.search.reader import NOTHING, Language, MovedError, Reader, Reading, image_query
from indexer.search.rerank import Reranker
from indexer.search.words import Completion, HeldWord
from indexer.store.commit import ReplacedError
from indexer.store.images import UnknownImageError
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.expression import Filter

ATTEMPTS = 10  # at a search, until the index stays at one version meanwhile
MAX_FACETS = 10  # of a search
DEEPEST = 10_000  # hits until the last one that a page may have
WARM_UP = 10  # words of the query that warms up

Result = TypeVar("Result")


class Searcher:
    """Searches one index with one engine. Safe from any thread.

    Attributes:
        engine: finds images; closed with the searcher.
        can: what the engine can do.
        language: of the index.
        used: whether a search was answered, so that models are loaded.

    Args:
        prepare: reads from the disk, or loads, what first searches would wait for.
        lenient: makes an engine for one request that does without shards that do not answer.
        reopen: opens the index that has taken the place of this one.
    """

    def __init__(
        self,
        engine: Engine,
        language: Language,
        *,
        prepare: Callable[[], object] | None = None,
        lenient: Callable[[], Engine] | None = None,
        reopen: Callable[[], Searcher] | None = None,
    ) -> None:
        self.engine, self.can, self.language = engine, engine.can, language
        self.used = False
        self._prepare, self._lenient, self._reopen = prepare, lenient, reopen
        self._newest: Reader | None = None

    @property
    def _reader(self) -> Reader:
        """Of the version that the engine had when it was last asked."""
        if self._newest is None:
            self._newest = Reader(self.language, self.engine, self.engine.statistics())
        return self._newest

    @property
    def version(self) -> Version:
        """Of the index when it was last asked."""
        return self._reader.version

    @property
    def missing_images(self) -> int:
        """Images of the index that a dense model does not find, having no vectors of them."""
        return self._reader.missing_images

    def __len__(self) -> int:
        """Number of images that can be found."""
        with suppress(UnavailableError):  # there are as many as there were
            self._now()
        return self._reader.images

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        filter: Filter | None = None,
        min_coverage: float | None = None,
        sort: str | None = None,
        facets: Sequence[str] = (),
        offset: int = 0,
        after: Position | None = None,
        explain: Explain | None = None,
        rerank: int = 0,
        partial: bool = False,
    ) -> Answer:
        """The k best images for a text, or the first of all that match in another order.

        Args:
            query: a text in the grammar of `indexer.query`, or a parsed one; "" for all images.
            k: hits at most.
            substitute: whether words that no image has are replaced by the nearest trained terms.
            filter: images that may be found; None for all.
            min_coverage: of the images that may be found, 0 to 1; then hits have their coverage.
            sort: a field to sort all matching images by, with a minus for the largest first.
            facets: fields to count over all matching images; dates with a period: `taken:year`.
            offset: hits before the first one.
            after: where the page begins, in place of an offset.
            explain: how hits are explained, where the engine can; None for not at all.
            rerank: first hits to order by the similarity of text and photo; 0 for none.
            partial: whether to do without shards that do not answer.

        Raises QueryError or FilterError; ValueError if k is not positive; RefusedError if the
        engine cannot do what is asked, UnavailableError if a part of it does not answer.
        """
        if partial and self._lenient is not None:
            return Searcher(self._lenient(), self.language).search(
                query, k, substitute=substitute, filter=filter, min_coverage=min_coverage,
                sort=sort, facets=facets, offset=offset, after=after, explain=explain,
                rerank=rerank,
            )  # fmt: skip
        start = _started(k)
        words = bool((query if isinstance(query, str) else query.text).strip())
        browsed = bool(sort or facets) or not words
        if browsed or min_coverage is not None:
            self._check_asked(min_coverage, browsed, sort, facets)
        wanted = self._wanted(query, words)
        reranker = self._reranker(rerank, browsed) if rerank else None

        def attempt(reader: Reader) -> Answer:
            plan, reading = reader.plan(wanted, substitute, filter, min_coverage, browsed)
            tokenised = perf_counter()
            if browsed:
                page = Page(k, offset, sort, tuple(facets), after)
                answer = surveyed(self.engine, reader, plan, page, reading)
            else:
                order = None
                if reranker is not None:
                    order = partial_of(reranker, spoken(wanted), rerank, self._documents(reader))
                page = Page(k, offset, after=after)
                answer = ranked(self.engine, reader, plan, page, reading, rerank, order)
            finish(answer, reader, self.can, start, tokenised)
            how = explain if explain and words and Capability.EXPLAIN in self.can else None
            if how or (min_coverage is not None and not browsed):
                self._explaining(reader, wanted, substitute).add_to(answer, how)
            return answer

        return self._consistent(attempt)

    def _check_asked(
        self, min_coverage: float | None, browsed: bool, sort: str | None, facets: Sequence[str]
    ) -> None:
        """Refuse what the engine cannot do, or would do for too long."""
        if len(facets) > MAX_FACETS:
            raise RefusedError("facets", f"{len(facets)} are too many; {MAX_FACETS} are allowed")
        if min_coverage is not None and Capability.COVERAGE not in self.can:
            problem = f"the {self.engine.name} engine has no coverage; leave it out"
            raise RefusedError("min_coverage", problem)
        if browsed and Capability.BROWSE not in self.can:
            name = "sort" if sort else "facets" if facets else "q"
            problem = f"the {self.engine.name} engine lists the best images alone; search sparta"
            raise RefusedError(name, problem)

    def _reranker(self, rerank: int, browsed: bool) -> Reranker:
        """What orders hits anew; raises RefusedError if this search cannot re-rank so many."""
        found, problem = self.language.reranker, ""
        if found is None or Capability.REQUIRE not in self.can:
            problem = "it has no vectors of photos: build it with --rerank, and search sparta"
        elif rerank > found.deepest:
            problem = f"the index was built to re-rank {found.deepest} hits: ask for at most these"
        elif browsed:
            problem = "it needs words, and neither sort nor facets"
        if found is None or problem:
            raise RefusedError("rerank", problem)
        return found

    def _wanted(self, query: str | Query, words: bool) -> Query:
        """The query, parsed as far as the engine has operators."""
        if Capability.REQUIRE not in self.can:
            return Query.plain(plain_text(query))
        return searchable(query) if words else parsed(query)

    def _explaining(self, reader: Reader, query: Query, substitute: bool) -> Explaining:
        words = reader.words(query, substitute)
        vocabulary = self.language.tokenizer.vocabulary
        needs = reader.needs(words, weighed=True)
        return Explaining(self._documents(reader), vocabulary, words, needs, {})

    def _documents(self, reader: Reader) -> AskDocuments:
        """The engine's `documents`, which must be of the reader's version."""

        def found(ids: Sequence[str], terms: Sequence[int] | None, grounded: bool) -> Documents:
            documents = self.engine.documents(ids, terms, grounded)
            reader.check(documents.version)
            return documents

        return found

    def similar(
        self,
        image_ids: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        filter: Filter | None = None,
        explain: Explain | None = None,
    ) -> Answer:
        """The k images most similar to an indexed one, or to several, without these.

        The inverted index makes a query of the images' top ten terms; a dense model compares
        vectors. The images need not pass the filter, and `words`, a query that others should fit as
        well, may only exclude. Raises UnknownImageError if the index lacks an image, and errors as
        `search`.
        """
        start = _started(k)
        like = (image_ids,) if isinstance(image_ids, str) else tuple(dict.fromkeys(image_ids))
        wanted, vectors = parsed(words), Capability.REQUIRE not in self.can
        if vectors and wanted.text.strip():
            problem = "a dense model compares photos alone: leave the words out, or search sparta"
            raise RefusedError("words", problem)

        def attempt(reader: Reader) -> Answer:
            if vectors:
                plan, reading = Plan({}, like=like), NOTHING
                return self._by_terms(reader, plan, reading, k, filter, start, explain)
            plan, reading = reader.plan(wanted, substitute=True)
            found = self._documents(reader)(like, None, False)
            impacts = dict(zip(found.terms, found.impacts.sum(axis=0).tolist(), strict=True))
            held = reader.largest([*plan.terms])
            pairs = zip(plan.terms.items(), held, strict=True)
            terms = image_query(impacts, {term: n for (term, n), largest in pairs if largest})
            plan = plan._replace(terms=terms, like=like)
            return self._by_terms(reader, plan, reading, k, filter, start, explain)

        return self._consistent(attempt)

    def similar_to(
        self,
        impacts: Mapping[str, int],
        k: int = 10,
        *,
        filter: Filter | None = None,
        explain: Explain | None = None,
    ) -> Answer:
        """The k images most similar to one that was encoded as those of the index.

        `impacts` are terms of the index with the image's impacts, by ascending term id. Raises
        RefusedError if the engine cannot, and errors as `search`.
        """
        start = _started(k)
        if Capability.PHOTO not in self.can:
            raise RefusedError("backend", f"the {self.engine.name} engine cannot search by a photo")
        ids = self.language.tokenizer.ids
        known = {ids[term]: impact for term, impact in impacts.items() if term in ids}

        def attempt(reader: Reader) -> Answer:
            pairs = zip(known.items(), reader.largest([*known]), strict=True)
            plan = Plan(image_query({term: n for (term, n), largest in pairs if largest}))
            return self._by_terms(reader, plan, NOTHING, k, filter, start, explain)

        return self._consistent(attempt)

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """The score of one image for a text, whether or not a search finds it.

        Raises UnknownImageError if the index has no such image, QueryError if the query cannot be
        read, RefusedError if the engine cannot explain.
        """
        self._require(Capability.EXPLAIN, "backend", "cannot explain scores")
        wanted = parsed(query)

        def attempt(reader: Reader) -> Explanation:
            one, metadata = self._explaining(reader, wanted, substitute).of(image_id)
            return Explanation(image_id, *one, metadata)

        return self._consistent(attempt)

    def terms(self, query: str | Query, *, substitute: bool = True) -> dict[str, int]:
        """The terms whose impacts a search adds up, and how often each counts.

        Raises QueryError as `search`, and if the query has a sign, which counts cannot express.
        """
        self._require(Capability.REQUIRE, "backend", "has no terms")
        wanted, vocabulary = searchable(query), self.language.tokenizer.vocabulary
        signed = next((one for one in wanted.clauses if one.sign), None)
        if signed is not None:
            problem = "counts of terms cannot express a sign: leave it out"
            raise QueryError(problem, wanted.text, signed.column)

        def attempt(reader: Reader) -> dict[str, int]:
            counts, _ = reader.read(wanted, substitute)
            return {vocabulary[term]: count for term, count in counts.items()}

        return self._consistent(attempt)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        """Queries whose last word is one of the index, those in the most images first.

        The letters at the end of the text begin the words; if no word begins so, the words nearest
        to them are taken.
        """
        self._require(Capability.SUGGEST, "backend", "has no words")
        self._now()
        return self._consistent(lambda reader: reader.held_words.complete(text, most))

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        """The words of the index nearest to one, first by edits, then by the images with them.

        A word of the index is not among its own corrections.
        """
        self._require(Capability.SUGGEST, "backend", "has no words")
        self._now()
        return self._consistent(lambda reader: reader.held_words.correct(word, most))

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata; raises UnknownImageError if the index has no such image."""
        return self.engine.documents([image_id], ()).metadata[0]

    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of all fields, which filters, orders and facets may name."""
        self._now()
        return self._consistent(lambda reader: reader.kinds)

    def ids(self, filter: Filter | None = None) -> list[str]:
        """The ids of the images that a filter lets through, rising; raises FilterError."""
        return self._every(filter, len(self) + 1).found.image_ids

    def count(self, filter: Filter | None = None) -> int:
        """How many images a filter lets through, or all; raises FilterError."""
        return self._every(filter, 0).total if filter is not None else len(self)

    def warm_up(self) -> None:
        """Do once what the first searches, suggestions, filters and explanations would wait for.

        Raises InputError if something that is not needed to open the index is damaged.
        """
        if self._prepare is not None:
            self._prepare()
        if Capability.SUGGEST in self.can:
            self.complete("a")
            words = self.language.words.words
            some = " ".join(words[:: 1 + len(words) // WARM_UP])
            self.search(some, explain=Explain(grounded=False))
        if Capability.FILTER in self.can:
            from indexer.fields.kinds import PATH
            from indexer.filters.expression import Match

            with suppress(InputError):  # an index without images has no fields
                self.count(Match(field=PATH, values=("a",), mode="text"))

    def refreshed(self) -> Searcher | None:
        """A searcher of the newest version of the index, None if this is at it.

        Raises InputError if another index has taken its place and cannot be opened.
        """
        try:
            return self.continued()
        except ReplacedError:
            if self._reopen is None:
                raise
            return self._reopen()

    def continued(self) -> Searcher | None:
        """As `refreshed`, but raises ReplacedError if the newest version is another index."""
        newer = self.engine.refreshed()
        if newer is None:
            return None
        other = self.over(newer)
        other._prepare = None  # which would keep the files of this one
        return other

    def over(self, engine: Engine) -> Searcher:
        """The same searcher over the same kind of engine at another version."""
        other = Searcher(engine, self.language, prepare=self._prepare, reopen=self._reopen)
        other.used = self.used
        return other

    def close(self) -> None:
        """Close the files."""
        self.engine.close()

    def _require(self, needed: Capability, field: str, problem: str) -> None:
        if needed not in self.can:
            raise RefusedError(field, f"the {self.engine.name} engine {problem}; search sparta")

    def _now(self) -> None:
        """Learn of the version that the engine has now."""
        found = self.engine.statistics()
        if self._newest is None or found.version != self._newest.version:
            self._newest = Reader(self.language, self.engine, found)

    def _consistent(self, attempt: Callable[[Reader], Result]) -> Result:
        """What an attempt returns during which the index stayed at one version."""
        for _ in range(ATTEMPTS):
            reader = self._reader
            try:
                result = attempt(reader)
                self.used = True
                return result
            except MovedError:
                self._now()
            except (InputError, UnknownImageError):
                self._now()  # what was refused may be right in a newer version
                if self._reader is reader:
                    raise
        raise UnavailableError("the index changes faster than it can be searched: try again")

    def _every(self, filter: Filter | None, k: int) -> Survey:
        self._require(Capability.FILTER, "filter", "has no fields")

        def attempt(reader: Reader) -> Survey:
            plan = Plan({}, filter=filter, kinds=reader.kinds, everything=True)
            found = self.engine.survey(plan, Page(k))
            reader.check(found.found.version)
            return found

        return self._consistent(attempt)

    def _by_terms(
        self,
        reader: Reader,
        plan: Plan,
        reading: Reading,
        k: int,
        filter: Filter | None,
        start: float,
        explain: Explain | None,
    ) -> Answer:
        """The answer to a query that was made of images."""
        if filter is not None:
            plan = plan._replace(filter=filter, kinds=reader.kinds)
        tokenised = perf_counter()
        answer = ranked(self.engine, reader, plan, Page(k), reading)
        vocabulary = self.language.tokenizer.vocabulary
        answer.terms = [QueryTerm(vocabulary[term], n) for term, n in plan.terms.items()]
        finish(answer, reader, self.can, start, tokenised)
        if explain is not None and Capability.EXPLAIN in self.can:
            explaining = Explaining(self._documents(reader), vocabulary, [], [], plan.terms)
            explaining.add_to(answer, explain)
        return answer


def _started(k: int) -> float:
    """Now, at the start of a search for k images."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return perf_counter()
