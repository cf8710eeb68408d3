"""The one searcher: a text, images or a photo → a plan → one engine → one answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from indexer.query import Query, parsed, plain_text, searchable
from indexer.search.answer import (
    Answer,
    Condition,
    Correction,
    Explanation,
    Hit,
    Position,
    QueryTerm,
    RefusedError,
    Timings,
    UnavailableError,
    Version,
)
from indexer.search.engine import Capability, Engine, Found, Page, Plan, Survey, is_before
from indexer.search.explanations import Explaining
from indexer.search.reader import Language, MovedError, Reader, Reading, image_query
from indexer.search.words import Completion, HeldWord
from indexer.store.commit import ReplacedError
from indexer.store.images import UnknownImageError
from sparta.errors import InputError

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.expression import Filter

ATTEMPTS = 10  # at a search, until the index stays at one version meanwhile
DEEPEST = 10_000  # hits until the last one that a page may have
MAX_CORRECTED, CORRECTIONS = 10, 3  # unknown words, and words for each
EXPLAINED_AT_ONCE = 100  # hits
MS = 1000.0
WARM_UP = 10  # words of the query that warms up
_NOTHING = Reading({}, [], [])

Result = TypeVar("Result")


class Explain(NamedTuple):
    """How hits are explained.

    Attributes:
        grounded: whether explanations say what won each term.
        most: terms of all hits together at most; None for any number.
        check: called between some hundred hits; what it raises ends the search.
    """

    grounded: bool = True
    most: int | None = None
    check: Callable[[], None] = lambda: None


class Searcher:
    """Searches one index with one engine. Safe from any thread.

    Attributes:
        engine: that finds images.
        can: what the engine can do.
        language: of the index.
        used: whether a search was answered, so that models are loaded.

    Args:
        engine: closed with the searcher.
        language: of the index.
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
        partial: bool = False,
    ) -> Answer:
        """The k best images for a text, or the first of all that match in another order.

        Args:
            query: any text, of which `indexer.query` has the grammar, or a read one. Without
                words all images match, in the order of `sort`, else of their ids.
            k: hits at most.
            substitute: whether words that no image has are replaced by the nearest trained terms,
                where the index has a table of substitutes; dense models have none.
            filter: images that may be found; None for all.
            min_coverage: of the images that may be found, 0 to 1; then hits have their coverage.
                None for all images, without it.
            sort: a field to sort all matching images by, with a minus for the largest first.
            facets: fields to count over all matching images; dates with a period: `taken:year`.
            offset: hits before the first one.
            after: where the page begins, in place of an offset.
            explain: how hits are explained, where the engine can; None for not at all.
            partial: whether to do without shards that do not answer.

        Raises:
            ValueError: if k is not positive.
            QueryError: if the query cannot be read, or has operators that the engine lacks.
            FilterError: if the filter does not fit the fields.
            RefusedError: if the engine cannot do what is asked.
            UnavailableError: if a model, server or shard does not answer.
        """
        if partial and self._lenient is not None:
            one = Searcher(self._lenient(), self.language)
            return one.search(
                query, k, substitute=substitute, filter=filter, min_coverage=min_coverage,
                sort=sort, facets=facets, offset=offset, after=after, explain=explain,
            )  # fmt: skip
        start = _started(k)
        if min_coverage is not None and Capability.COVERAGE not in self.can:
            raise RefusedError(
                "min_coverage", f"the {self.engine.name} engine has no coverage; leave it out"
            )
        words = bool((query if isinstance(query, str) else query.text).strip())
        browsed = bool(sort or facets) or not words
        if browsed and Capability.BROWSE not in self.can:
            name = "sort" if sort else "facets" if facets else "q"
            problem = f"the {self.engine.name} engine lists the best images alone; search sparta"
            raise RefusedError(name, problem)
        plain = Capability.REQUIRE not in self.can
        wanted = Query.plain(plain_text(query)) if plain else parsed(query)
        if words and not plain:
            wanted = searchable(wanted)

        def attempt(reader: Reader) -> Answer:
            reading = _NOTHING if plain else reader.read(wanted, substitute)
            plan = Plan(reading.terms)
            if filter is not None or browsed:
                plan = plan._replace(filter=filter, kinds=reader.kinds, everything=not words)
            if reading.signed:
                plan = plan._replace(signed=tuple(reader.needs(reading.signed)))
            if min_coverage:
                weighed = reader.needs(reader.words(wanted, substitute), weighed=True)
                plan = plan._replace(weighed=tuple(weighed), min_coverage=min_coverage)
            if plain:
                plan = plan._replace(text=wanted.text)
            tokenised = perf_counter()
            if browsed:
                page = Page(k, offset, sort, tuple(facets), after)
                answer = self._surveyed(reader, plan, page, reading)
            else:
                answer = self._ranked(reader, plan, k, offset, after, reading)
            self._finish(answer, reader, start, tokenised)
            how = explain if words and Capability.EXPLAIN in self.can else None
            if how is not None or (min_coverage is not None and not browsed):
                self._explain(answer, reader, self._explaining(reader, wanted, substitute), how)
            return answer

        return self._consistent(attempt)

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
        vectors.

        Args:
            image_ids: of the indexed one, or of several; they need not pass the filter.
            k: hits at most.
            words: a query that the images should fit as well; it may only exclude.
            filter: images that may be found; None for all.
            explain: see `search`.

        Raises:
            ValueError: if k is not positive.
            UnknownImageError: if the index has no such image.
            QueryError, FilterError, RefusedError, UnavailableError: as `search`.
        """
        start = _started(k)
        like = (image_ids,) if isinstance(image_ids, str) else tuple(dict.fromkeys(image_ids))
        wanted, vectors = parsed(words), Capability.REQUIRE not in self.can
        if vectors and wanted.text.strip():
            problem = "a dense model compares photos alone: leave the words out, or search sparta"
            raise RefusedError("words", problem)

        def attempt(reader: Reader) -> Answer:
            reading, terms = _NOTHING, dict[int, int]()
            if not vectors:
                reading = reader.read(wanted, True)
                found = self.engine.documents(like, None)
                reader.check(found.version)
                impacts = dict(zip(found.terms, found.impacts.sum(axis=0).tolist(), strict=True))
                held = reader.largest([*reading.terms])
                pairs = zip(reading.terms.items(), held, strict=True)
                terms = image_query(impacts, {term: n for (term, n), largest in pairs if largest})
            plan = Plan(terms, tuple(reader.needs(reading.signed)), like=like)
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

        Args:
            impacts: terms of the index with the image's impacts, by ascending term id.
            k: hits at most.
            filter: images that may be found; None for all.
            explain: see `search`.

        Raises:
            ValueError: if k is not positive.
            RefusedError: if the engine cannot.
            FilterError, UnavailableError: as `search`.
        """
        start = _started(k)
        if Capability.PHOTO not in self.can:
            raise RefusedError("backend", f"the {self.engine.name} engine cannot search by a photo")
        ids = self.language.tokenizer.ids
        known = {ids[term]: impact for term, impact in impacts.items() if term in ids}

        def attempt(reader: Reader) -> Answer:
            pairs = zip(known.items(), reader.largest([*known]), strict=True)
            plan = Plan(image_query({term: n for (term, n), largest in pairs if largest}))
            return self._by_terms(reader, plan, _NOTHING, k, filter, start, explain)

        return self._consistent(attempt)

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        """The score of one image for a text, whether or not a search finds it.

        Raises:
            UnknownImageError: if the index has no such image.
            QueryError: if the query cannot be read.
            RefusedError: if the engine cannot explain.
        """
        self._require(Capability.EXPLAIN, "backend", "cannot explain scores")
        wanted = parsed(query)

        def attempt(reader: Reader) -> Explanation:
            explaining = self._explaining(reader, wanted, substitute)
            found = self.engine.documents([image_id], explaining.term_ids, grounded=True)
            reader.check(found.version)
            [one] = explaining.explain(found)
            return Explanation(image_id, *one, found.metadata[0])

        return self._consistent(attempt)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        """Queries whose last word is one of the index, those in the most images first.

        Args:
            text: a query as far as it is typed, with or without operators. The letters at its end
                begin the words; if no word begins so, the words nearest to them are taken.
            most: queries at most.
        """
        self._require(Capability.SUGGEST, "backend", "has no words")
        self._now()
        return self._consistent(lambda reader: reader.held_words.complete(text, most))

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        """The words of the index nearest to one, first by edits, then by the images with them.

        Args:
            word: any; one of the index is not among its own corrections.
            most: words at most.
        """
        self._require(Capability.SUGGEST, "backend", "has no words")
        self._now()
        return self._consistent(lambda reader: reader.held_words.correct(word, most))

    def metadata(self, image_id: str) -> dict[str, Any]:
        """An image's stored metadata.

        Raises:
            UnknownImageError: if the index has no such image.
        """
        return self.engine.documents([image_id], ()).metadata[0]

    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of all fields, which filters, orders and facets may name."""
        self._now()
        return self._consistent(lambda reader: reader.kinds)

    def ids(self, filter: Filter | None = None) -> list[str]:
        """The ids of the images that a filter lets through, rising; of all without one.

        Raises:
            FilterError: if the filter does not fit the fields.
        """
        return self._every(filter, len(self) + 1).found.image_ids

    def count(self, filter: Filter | None = None) -> int:
        """How many images a filter lets through; all without one.

        Raises:
            FilterError: if the filter does not fit the fields.
        """
        return self._every(filter, 0).total if filter is not None else len(self)

    def warm_up(self) -> None:
        """Do once what the first searches, suggestions, filters and explanations would wait for.

        Raises:
            InputError: if something that is not needed to open the index is damaged.
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

        Raises:
            InputError: if another index has taken its place and cannot be opened.
        """
        try:
            return self.continued()
        except ReplacedError:
            if self._reopen is None:
                raise
            return self._reopen()

    def continued(self) -> Searcher | None:
        """As `refreshed`, but of the same index.

        Raises:
            ReplacedError: if the newest version does not continue this one.
        """
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

    def _ranked(
        self,
        reader: Reader,
        plan: Plan,
        k: int,
        offset: int,
        after: Position | None,
        reading: Reading,
    ) -> Answer:
        """A page of the ranking."""
        if after is None:
            found = self._top(reader, plan, k + offset)
            if offset:
                found = found.at(range(offset, len(found.image_ids)))
            return self._answer(reader, found, offset + 1, reading)
        wanted = after.rank + k
        while True:
            found = self._top(reader, plan, wanted)
            pairs = enumerate(zip(found.scores, found.image_ids, strict=True))
            later = [n for n, pair in pairs if is_before(after, *pair, falling=True)]
            # Images that came meanwhile have pushed others behind those looked at.
            if len(later) >= k or len(found.image_ids) < wanted:
                return self._answer(reader, found.at(later[:k]), after.rank + 1, reading)
            wanted *= 2

    def _top(self, reader: Reader, plan: Plan, k: int) -> Found:
        found = self.engine.top(plan, k)
        reader.check(found.version)
        return found

    def _surveyed(self, reader: Reader, plan: Plan, page: Page, reading: Reading) -> Answer:
        """A page of all that matches."""
        from indexer.filters.browse import most_frequent  # which a search by score does not need

        survey = self.engine.survey(plan, page)
        reader.check(survey.found.version)
        skipped = page.offset if page.after is None else 0
        places = range(len(survey.values))[skipped : skipped + page.k]
        first = page.offset if page.after is None else page.after.rank
        answer = self._answer(reader, survey.found.at(places), first + 1, reading)
        answer.total = survey.total
        counts = survey.counts.items()
        answer.facets = {facet: most_frequent(own, facet) for facet, own in counts} or None
        if answer.last is not None:
            answer.last = answer.last._replace(value=survey.values[places[-1]])
        return answer

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
        answer = self._ranked(reader, plan, k, 0, None, reading)
        vocabulary = self.language.tokenizer.vocabulary
        answer.terms = [QueryTerm(vocabulary[term], n) for term, n in plan.terms.items()]
        self._finish(answer, reader, start, tokenised)
        if explain is not None and Capability.EXPLAIN in self.can:
            self._explain(answer, reader, Explaining(vocabulary, [], [], plan.terms), explain)
        return answer

    def _answer(self, reader: Reader, found: Found, first: int, reading: Reading) -> Answer:
        """The answer with the images that were found, the first of which has this rank."""
        ranks = range(first, first + len(found.image_ids))
        hits = [*map(Hit, ranks, found.image_ids, found.scores, found.metadata)]
        answer = Answer(hits, Timings(0, 0, 0, found.encode_ms), found.version)
        if found.views is not None:
            for hit, view in zip(hits, found.views, strict=True):
                hit.view = view
        if hits:
            last = hits[-1]
            answer.last = Position(last.score, last.image_id, last.rank)
        if reading.notable:
            answer.rare, answer.substitutions = reading.rare, reading.substitutions
            answer.unknown = reading.unknown
        elif found.unknown:
            answer.unknown = [*found.unknown]
        if reading.signed:
            pairs = zip(reading.signed, found.having, strict=True)
            answer.conditions = [Condition(word.text, word.sign, n) for word, n in pairs]
        answer.missing_images = reader.missing_images
        answer.missing_shards = [*found.missing_shards]
        return answer

    def _finish(self, answer: Answer, reader: Reader, start: float, tokenised: float) -> None:
        """Record the times of a search that ends now, and correct what is unknown."""
        end, times = perf_counter(), answer.timings
        times.tokenise_ms, times.total_ms = (tokenised - start) * MS, (end - start) * MS
        times.search_ms = (end - tokenised) * MS - times.encode_ms
        if answer.unknown and Capability.SUGGEST in self.can:
            nearest = reader.held_words.correct
            near = ((word, nearest(word, CORRECTIONS)) for word in answer.unknown[:MAX_CORRECTED])
            answer.corrections = [
                Correction(word, [one.word for one in found]) for word, found in near if found
            ]

    def _explaining(self, reader: Reader, query: Query, substitute: bool) -> Explaining:
        words = reader.words(query, substitute)
        vocabulary = self.language.tokenizer.vocabulary
        return Explaining(vocabulary, words, reader.needs(words, weighed=True), {})

    def _explain(
        self, answer: Answer, reader: Reader, explaining: Explaining, how: Explain | None
    ) -> None:
        """Give hits their coverages, and explanations unless there is no way to."""
        start, hits, terms = perf_counter(), answer.hits, explaining.term_ids
        if how is not None and how.most is not None and len(hits) * len(terms) > how.most:
            raise RefusedError(
                "explain",
                f"{len(hits)} hits of {len(terms)} terms are too many; ask for "
                f"{how.most // len(terms)} hits or a shorter query",
            )
        for first in range(0, len(hits), EXPLAINED_AT_ONCE):
            some = hits[first : first + EXPLAINED_AT_ONCE]
            ids = [hit.image_id for hit in some]
            if how is None:
                found = self.engine.documents(ids, terms)
                reader.check(found.version)
                for hit, coverage in zip(some, explaining.coverages(found), strict=True):
                    hit.coverage = coverage
                continue
            how.check()
            found = self.engine.documents(ids, terms, how.grounded)
            reader.check(found.version)
            for hit, one in zip(some, explaining.explain(found), strict=True):
                hit.coverage, hit.explanation = one.coverage, one.terms
        if how is not None:
            answer.timings.explain_ms = (perf_counter() - start) * MS


def _started(k: int) -> float:
    """Now, at the start of a search for k images."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return perf_counter()
