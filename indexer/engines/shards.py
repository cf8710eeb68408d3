"""Searches an index in shards: every shard is asked, and the answers are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import methodcaller
from typing import Any, Protocol, TypeVar

import numpy as np

from indexer.answer import UnavailableError, Version
from indexer.fields.kinds import joined
from indexer.manifest import owner, shard_name
from indexer.search.engine import (
    Capability,
    Documents,
    Engine,
    Fact,
    Found,
    Page,
    Plan,
    Statistics,
    Survey,
    hit_order,
    value_order,
)

Result = TypeVar("Result")
Question = Callable[[Engine], Result]  # a `methodcaller`, which can be sent to another process
# What a fact of all shards is, of theirs.
JOINS: Mapping[Fact, Callable[[Sequence[Any]], Any]] = {
    "largest": partial(np.max, axis=0),
    "frequencies": partial(np.sum, axis=0),
    "bounds": lambda found: np.stack([np.sum(found, axis=0)[0], np.max(found, axis=0)[1]]),
    "kinds": joined,
}


class ShardsMissingError(UnavailableError):
    """Shards with these numbers do not answer."""

    def __init__(self, missing: Sequence[int]) -> None:
        names = ", ".join(map(shard_name, missing))
        super().__init__(f"{names}: no machine answers; try again, or ask for a partial answer")


class Shards(Protocol):
    """The shards of an index, in this process or elsewhere; safe from any thread."""

    def __len__(self) -> int: ...

    def ask(
        self, questions: Mapping[int, Question[Result]], lenient: bool
    ) -> tuple[dict[int, Result], list[int]]:
        """The answers to questions by number of the shard, and the numbers that do not answer.

        A lenient call waits only shortly for a shard.
        """

    def refreshed(self) -> Shards | None:
        """The shards at their newest commits, None if these are at them or follow by themselves."""
        return None

    def close(self) -> None:
        """Close the files that are open here."""
        return


class LocalShards:
    """Shards that are open in this process, each at one commit."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines

    def __len__(self) -> int:
        return len(self._engines)

    def ask(
        self, questions: Mapping[int, Question[Result]], lenient: bool
    ) -> tuple[dict[int, Result], list[int]]:
        """The answers of some shards, none of which is missing; see `Shards.ask`."""
        return {number: ask(self._engines[number]) for number, ask in questions.items()}, []

    def refreshed(self) -> LocalShards | None:
        """The shards at their newest commits; see `Shards.refreshed`."""
        newer = [engine.refreshed() for engine in self._engines]
        if not any(newer):
            return None
        pairs = zip(newer, self._engines, strict=True)
        return LocalShards([found or former for found, former in pairs])

    def close(self) -> None:
        """Close the files; Lucene's alone, which never follow commits, have to be closed."""
        for engine in self._engines:
            engine.close()


class ShardsEngine:
    """Asks all shards, so that answers are those of one index with all images; see `Engine`.

    A lenient one, which is for one request, does without shards that do not answer.
    """

    can = frozenset(Capability) - {Capability.QUICK}
    name = "shards"

    def __init__(self, shards: Shards, lenient: bool = False) -> None:
        self._shards, self._lenient = shards, lenient
        self._missing: set[int] = set()

    def lenient(self) -> ShardsEngine:
        """An engine for one request that does without shards that do not answer."""
        return ShardsEngine(self._shards, lenient=True)

    def _ask(self, questions: Mapping[int, Question[Result]]) -> dict[int, Result]:
        """The answers of some shards, in their order.

        Raises ShardsMissingError if one does not answer; of a lenient engine, if none does.
        """
        there = {n: question for n, question in questions.items() if n not in self._missing}
        answers, missing = self._shards.ask(there, self._lenient)
        self._missing.update(missing if self._lenient else ())
        if questions and (not answers or (missing and not self._lenient)):
            raise ShardsMissingError(sorted(missing or questions))
        return {number: answers[number] for number in sorted(answers)}

    def _ask_all(self, question: Question[Result]) -> dict[int, Result]:
        return self._ask(dict.fromkeys(range(len(self._shards)), question))

    def statistics(self, terms: Sequence[int] = (), *facts: Fact) -> Statistics:
        """Facts of all shards; see `Engine.statistics`."""
        question = methodcaller("statistics", tuple(terms), *facts)
        answers: dict[int, Statistics] = self._ask_all(question)
        found = [*answers.values()]
        asked = {fact: JOINS[fact]([getattr(one, fact) for one in found]) for fact in facts}
        return Statistics(_version(answers), sum(one.images for one in found), 0, **asked)

    def top(self, plan: Plan, k: int) -> Found:
        """The k best images of all shards; see `Engine.top`.

        Images of `plan.like` are left out here: a shard refuses those it lacks.
        """
        own = plan._replace(like=())
        parts: dict[int, Found] = self._ask_all(methodcaller("top", own, k + len(plan.like)))
        found = self._joined(parts)
        keys = list(map(hit_order, found.image_ids, found.scores))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return found.at([n for n in order if found.image_ids[n] not in plan.like][:k])

    def _joined(self, answers: Mapping[int, Found]) -> Found:
        """The images of all shards, one shard after the other."""
        parts = [*answers.values()]
        return Found(
            _version(answers),
            [image_id for one in parts for image_id in one.image_ids],
            [score for one in parts for score in one.scores],
            [own for one in parts for own in one.metadata],
            [sum(counts) for counts in zip(*(one.having for one in parts), strict=True)],
            missing_shards=[shard_name(number) for number in sorted(self._missing)],
        )

    def survey(self, plan: Plan, page: Page) -> Survey:
        """Count and order all images that match; see `Engine.survey`."""
        answers: dict[int, Survey] = self._ask_all(methodcaller("survey", plan, page))
        parts = [*answers.values()]
        found = self._joined({number: one.found for number, one in answers.items()})
        values = [value for one in parts for value in one.values]
        order = value_order(zip(values, found.image_ids, strict=True), page.falling)
        counts: dict[str, Counter[str | float | bool]] = {one: Counter() for one in page.facets}
        for one in parts:
            for facet, own in one.counts.items():
                counts[facet].update(own)
        total = sum(one.total for one in parts)
        return Survey(found.at(order), [values[n] for n in order], total, counts)

    def documents(
        self, image_ids: Sequence[str], terms: Sequence[int] | None, grounded: bool = False
    ) -> Documents:
        """What the shards that own some images store of them; see `Engine.documents`."""
        owners = [owner(image_id, len(self._shards)) for image_id in image_ids]
        shares: dict[int, list[str]] = {}
        for number, image_id in zip(owners, image_ids, strict=True):
            shares.setdefault(number, []).append(image_id)
        wanted = None if terms is None else tuple(terms)
        found: dict[int, Documents] = self._ask(
            {n: methodcaller("documents", own, wanted, grounded) for n, own in shares.items()}
        )
        if lost := sorted(shares.keys() - found.keys()):
            raise ShardsMissingError(lost)
        union = sorted({term for one in found.values() for term in one.terms})
        every = union if terms is None else [*terms]
        places = {term: place for place, term in enumerate(every)}
        impacts = np.zeros((len(image_ids), len(every)), np.int64)
        metadata, groundings, following = [], [], dict.fromkeys(found, 0)
        for row, number in enumerate(owners):
            one, place = found[number], following[number]
            following[number] += 1
            columns = range(len(every)) if terms is not None else [places[own] for own in one.terms]
            impacts[row, columns] = one.impacts[place]
            metadata.append(one.metadata[place])
            groundings += [] if one.groundings is None else [one.groundings[place]]
        return Documents(
            _version(found), metadata, every, impacts, groundings if grounded else None
        )

    def refreshed(self) -> ShardsEngine | None:
        """The engine over the shards' newest commits; see `Engine.refreshed`."""
        newer = self._shards.refreshed()
        return None if newer is None else ShardsEngine(newer)

    def close(self) -> None:
        """Close the shards."""
        self._shards.close()


def _version(answers: Mapping[int, Statistics | Found | Documents]) -> Version:
    """The commits of the shards that answered, under their numbers."""
    commits = ((number, own) for number, one in answers.items() for own in one.version.commits)
    return Version(tuple((number, lineage, version) for number, (_, lineage, version) in commits))
