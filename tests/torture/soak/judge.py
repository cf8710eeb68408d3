"""Whether the answers of a server whose index changes are right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Protocol

from server.schemas import SearchAnswer
from tests.torture.soak.editions import Editions

SHOWN = 10  # wrong answers that are described


@dataclass(frozen=True)
class Version:
    """A version of the index that has been served or should be.

    Attributes:
        edition: that it is.
        rebuilt_s: how long the rebuild took.
        ready: when it was in its place, by `perf_counter`.
    """

    edition: int
    rebuilt_s: float
    ready: float


class Checks(Protocol):
    """What a soak asks a judge of its answers; see `Judge`."""

    wrong: list[str]
    wrong_count: int

    @property
    def misplaced(self) -> int: ...
    @property
    def unserved(self) -> int: ...
    def check(self, query: str, answer: SearchAnswer, start: float, end: float) -> None: ...
    def register(self, name: str, version: Version) -> None: ...
    def versions(self) -> list[dict[str, Any]]: ...


class Judge:
    """Compares answers with those of the edition whose version they name.

    The version of a rebuilt index is known when its rebuild has ended, which may be after the first
    answers from it: answers are compared with every edition at once, and with the one of their
    version in the end.

    Attributes:
        wrong: descriptions of the first wrong answers.
        wrong_count: how many there were.
    """

    def __init__(self, editions: Editions) -> None:
        self._editions = editions
        self._versions: dict[str, Version] = {}
        self._answers: Counter[tuple[str, frozenset[int]]] = Counter()
        self._first: dict[str, float] = {}
        self.wrong: list[str] = []
        self.wrong_count = 0

    def register(self, name: str, version: Version) -> None:
        """An index of this version is in its place."""
        self._versions[name] = version

    def check(self, query: str, answer: SearchAnswer, start: float, end: float) -> None:
        """Compare an answer, its explanations included, with those that are right.

        Args:
            query: that was sent.
            answer: to it.
            start: when it was sent.
            end: when it was answered.
        """
        ranking = tuple((hit.image_id, hit.score) for hit in answer.hits)
        fitting = self._editions.fitting(query, ranking)
        self._answers[answer.index_version, fitting] += 1
        self._first.setdefault(answer.index_version, end)
        if not fitting:
            self._note(f"{query!r}: {ranking[:3]}… is the answer of no edition")
        for hit in answer.hits:
            if hit.explanation is not None and sum(t.score for t in hit.explanation) != hit.score:
                self._note(f"{query!r}: {hit.image_id} is explained with another score")

    def _note(self, text: str) -> None:
        self.wrong_count += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)

    @property
    def misplaced(self) -> int:
        """Right answers of another edition than that of the version they name."""
        return sum(
            count
            for (name, fitting), count in self._answers.items()
            if fitting and not (name in self._versions and self._versions[name].edition in fitting)
        )

    @property
    def unserved(self) -> int:
        """Rebuilt indexes that no answer names; the last may have come too late."""
        names = list(self._versions)
        return sum(name not in self._first for name in names[:-1])

    def versions(self) -> list[dict[str, Any]]:
        """Every version in the order of the rebuilds.

        `served_after_s` is from its rebuild to the first answer that names it, None without one.
        """
        return [
            {
                "version": name,
                "edition": version.edition,
                "rebuilt_s": round(version.rebuilt_s, 1),
                "served_after_s": self._served_after(name, version),
                "answers": sum(n for (own, _), n in self._answers.items() if own == name),
            }
            for name, version in self._versions.items()
        ]

    def _served_after(self, name: str, version: Version) -> float | None:
        return round(self._first[name] - version.ready, 1) if name in self._first else None
