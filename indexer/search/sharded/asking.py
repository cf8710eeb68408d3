"""Asks shards so that their answers together are those of one index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from indexer.fields.kinds import Kind
from indexer.filters.expression import FilterError
from indexer.query.query import Query
from indexer.search.api import UnavailableError
from indexer.search.sharded.facts import Facts, KnownFacts, merged
from indexer.search.sharded.shards import Answer, Shards, ShardsMissingError
from indexer.search.sharded.tasks import Look, Reading, Task
from indexer.search.terms.query_reader import QueryReader
from indexer.shards import owner
from indexer.store.commit import Commit
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables

ATTEMPTS = 10  # to ask all shards, until their facts are those that were assumed

Planned = TypeVar("Planned", bound=Task[Any])
Result = TypeVar("Result")


class Language(NamedTuple):
    """What all shards of an index share, with which queries are read.

    Attributes:
        tokenizer: of the index.
        tables: of words.
        bits: of an impact.
    """

    tokenizer: WordPieceTokenizer
    tables: WordTables
    bits: int


class Asking:
    """Reads queries with assumed facts of the whole index, and asks again if they were wrong.

    Attributes:
        shards: of the index.
        language: of the index.
        commits: of the shards when they last answered.

    Args:
        shards: of the index.
        language: of the index.
    """

    def __init__(self, shards: Shards, language: Language) -> None:
        self.shards, self.language = shards, language
        self.commits: dict[int, Commit] = {}
        self._known = KnownFacts()

    def over(self, shards: Shards) -> Asking:
        """The same over the shards at later commits."""
        newer = Asking(shards, self.language)
        newer._known = self._known.copy()
        return newer

    def read(
        self, query: Query, substitute: bool, *, words: bool = False, fields: bool = False
    ) -> tuple[Reading, Facts]:
        """A query as all shards take it, and the facts that this depends on.

        Args:
            query: of any clauses.
            substitute: whether words that the index lacks are replaced.
            words: whether its words are needed one by one.
            fields: whether the kinds of fields are.

        Raises:
            QueryError: if its weights are too large.
        """
        held: dict[str, bool] = {}

        def holds(term: str) -> bool:
            held[term] = self.holds(term)
            return held[term]

        language = self.language
        reader = QueryReader(language.tokenizer, language.tables, holds, 2**language.bits - 1)
        found = reader.read(query, substitute)
        all_words = reader.words(query, substitute) if words else []
        terms = dict.fromkeys(term for word in [*found.signed, *all_words] for term in word.terms)
        facts = Facts(held, self._largest(terms), self.kinds if fields else None)
        return Reading(query, found, all_words), facts

    def holds(self, term: str) -> bool:
        """Whether some image had a term when that was last needed."""
        if term not in self._known.held:
            self.look(Facts({term: False}))
        return self._known.held[term]

    def _largest(self, terms: Iterable[str]) -> dict[str, int]:
        known = self._known.largest
        if unknown := [term for term in terms if term not in known]:
            self.look(Facts(largest=dict.fromkeys(unknown, 0)))
        return {term: known[term] for term in terms}

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of all fields when they were last needed."""
        if self._known.kinds is None:
            self.look(Facts(kinds={}))
        assert self._known.kinds is not None
        return self._known.kinds

    def look(self, facts: Facts) -> int:
        """Learn what some facts are now, and how many images there are."""
        answers = self._ask({number: Look(facts) for number in range(len(self.shards))})
        self._known.note(merged(answers[number].facts for number in sorted(answers)))
        return sum(one.images for one in answers.values())

    def _ask(self, tasks: Mapping[int, Task[Any]]) -> dict[int, Answer[Any]]:
        answers = self.shards.ask(tasks)
        self.commits |= {number: one.commit for number, one in answers.items()}
        return answers

    def forget_held(self) -> None:
        """Ask again which terms there are, as they are needed."""
        self._known.held = {}

    def all(self, plan: Callable[[], Planned]) -> tuple[Planned, list[Any]]:
        """The results of a task on all shards, in their order.

        Args:
            plan: makes the task of the facts that are known; called again if they were wrong.

        Returns:
            the task, and the result of each shard.
        """
        planned: list[Planned] = []

        def tasks() -> dict[int, Task[Any]]:
            planned.append(plan())
            return dict.fromkeys(range(len(self.shards)), planned[-1])

        answers = self._agreed(tasks)
        return planned[-1], [answers[number].result for number in sorted(answers)]

    def by_owner(
        self,
        image_ids: Sequence[str],
        plan: Callable[[], tuple[Facts, Callable[[Sequence[str]], Task[list[Result]]]]],
    ) -> list[Result]:
        """The results for some images, of the shards that have them.

        Args:
            image_ids: of the images.
            plan: gives facts, and what makes a task for images of a shard of them.
        """
        owners = [owner(image_id, len(self.shards)) for image_id in image_ids]
        shares: dict[int, list[str]] = {}
        for number, image_id in zip(owners, image_ids, strict=True):
            shares.setdefault(number, []).append(image_id)

        def tasks() -> dict[int, Task[Any]]:
            facts, task = plan()
            asked: dict[int, Task[Any]] = {n: task(own) for n, own in shares.items()}
            if facts != Facts():  # which all shards make up
                for number in range(len(self.shards)):
                    asked.setdefault(number, Look(facts))
            return asked

        answers = self._agreed(tasks)
        if missing := [number for number in shares if number not in answers]:
            raise ShardsMissingError(missing)
        results = {number: iter(answers[number].result) for number in shares}
        return [next(results[number]) for number in owners]

    def _agreed(self, plan: Callable[[], Mapping[int, Task[Any]]]) -> dict[int, Answer[Any]]:
        """The answers to some tasks, whose facts were right."""
        for _ in range(ATTEMPTS):
            tasks = plan()
            try:
                answers = self._ask(tasks)
            except FilterError:
                former = self.kinds
                self.look(Facts(kinds={}))
                if self.kinds == former:
                    raise
                continue
            found = merged(answers[number].facts for number in sorted(answers))
            if all(found == task.facts for task in tasks.values()):
                return answers
            self._known.note(found)
        raise UnavailableError("the index changes faster than it can be searched: try again")
