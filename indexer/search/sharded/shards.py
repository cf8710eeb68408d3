"""The shards of an index, and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Generic, Protocol, TypeVar

from indexer.search.api import UnavailableError
from indexer.search.lucene import LuceneSearcher
from indexer.search.sharded.facts import Facts
from indexer.search.sharded.tasks import Task
from indexer.shards import shard_name
from indexer.store.commit import Commit

Result = TypeVar("Result")


@dataclass(frozen=True)
class Answer(Generic[Result]):
    """What a shard answers.

    Attributes:
        result: of the task.
        facts: of the shard, as many as the task depends on.
        commit: that answered.
        images: of the shard.
    """

    result: Result
    facts: Facts
    commit: Commit
    images: int


def answer(shard: LuceneSearcher, task: Task[Result]) -> Answer[Result]:
    """Do a task on a shard, whose searcher is at one commit."""
    return Answer(task(shard), task.facts.of(shard), shard.commit, len(shard))


class ShardsMissingError(UnavailableError):
    """Raised if shards do not answer.

    Args:
        missing: their numbers.
    """

    def __init__(self, missing: Sequence[int]) -> None:
        names = ", ".join(map(shard_name, missing))
        super().__init__(f"{names}: no machine answers; try again, or ask for a partial answer")


class Shards(Protocol):
    """The shards of an index, in this process or elsewhere; safe from any thread."""

    def __len__(self) -> int: ...

    def ask(self, tasks: Mapping[int, Task[Result]]) -> dict[int, Answer[Result]]:
        """The answers of some shards, each to its own task.

        Raises:
            ShardsMissingError: if one does not answer.
        """
        ...

    def ask_those_there(
        self, tasks: Mapping[int, Task[Result]]
    ) -> tuple[dict[int, Answer[Result]], list[int]]:
        """As `ask`, but with the numbers of those that do not answer soon."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


class ThoseThere:
    """The shards of an index that answer, for one request.

    Attributes:
        missing: numbers of those that did not; they are not asked again.

    Args:
        shards: all of them.
    """

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self.missing: set[int] = set()

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, tasks: Mapping[int, Task[Result]]) -> dict[int, Answer[Result]]:
        """The answers of those that answer.

        Raises:
            ShardsMissingError: if none does.
        """
        there = {number: task for number, task in tasks.items() if number not in self.missing}
        answers, missing = self._shards.ask_those_there(there)
        self.missing.update(missing)
        if tasks and not answers:
            raise ShardsMissingError(sorted(tasks))
        return answers

    def ask_those_there(
        self, tasks: Mapping[int, Task[Result]]
    ) -> tuple[dict[int, Answer[Result]], list[int]]:
        """The same, with the numbers of the others."""
        return self.ask(tasks), sorted(self.missing)

    def close(self) -> None:
        """Nothing: others ask these shards."""


class Shared:
    """A searcher that several users have.

    Attributes:
        searcher: closed by the last of them.

    Args:
        searcher: with its first user.
    """

    def __init__(self, searcher: LuceneSearcher) -> None:
        self.searcher = searcher
        self._users = 1
        self._lock = Lock()

    def shared(self) -> Shared:
        """The same, with one user more, who closes it."""
        with self._lock:
            self._users += 1
        return self

    def close(self) -> None:
        """One user less; the last one closes the searcher."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.searcher.close()


class LocalShards:
    """Shards that are open in this process, each at one commit.

    Args:
        shards: in their order.
    """

    def __init__(self, shards: Sequence[Shared]) -> None:
        self._shards = list(shards)

    @classmethod
    def open(
        cls, folders: Sequence[Path], open_shard: Callable[[Path], LuceneSearcher]
    ) -> LocalShards:
        """Open all shards, or none.

        Raises:
            InputError: if one is damaged.
        """
        opened: list[Shared] = []
        try:
            for folder in folders:
                opened.append(Shared(open_shard(folder)))
        except BaseException:
            for shard in opened:
                shard.close()  # Java would keep its files
            raise
        return cls(opened)

    @property
    def searchers(self) -> list[LuceneSearcher]:
        """The searcher of each shard."""
        return [shard.searcher for shard in self._shards]

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, tasks: Mapping[int, Task[Result]]) -> dict[int, Answer[Result]]:
        """The answers of some shards; see `Shards`."""
        return {
            number: answer(self._shards[number].searcher, task) for number, task in tasks.items()
        }

    def ask_those_there(
        self, tasks: Mapping[int, Task[Result]]
    ) -> tuple[dict[int, Answer[Result]], list[int]]:
        """The same; all are there."""
        return self.ask(tasks), []

    def continued(self) -> LocalShards | None:
        """The shards at their newest commits, None if these are at them.

        Raises:
            ReplacedError: if one is of another index, or a copy, by now.
        """
        newer: list[Shared] = []
        changed = False
        try:
            for shard in self._shards:
                searcher = shard.searcher.continued()
                newer.append(shard.shared() if searcher is None else Shared(searcher))
                changed = changed or searcher is not None
        finally:
            if not changed or len(newer) < len(self._shards):
                for shard in newer:
                    shard.close()
        return LocalShards(newer) if changed else None

    def close(self) -> None:
        """Close the searchers that nothing else uses."""
        for shard in self._shards:
            shard.close()
