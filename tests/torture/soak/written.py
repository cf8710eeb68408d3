"""What clients have written to an index that is searched meanwhile, and what a search may show.

A change can be seen from the moment its request is sent. The state before can be seen until a
change of the same image is acknowledged that has waited until searches find it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval.bench.query_latency.collections.queries import TermQuery
from server.schemas import SearchAnswer
from tests.torture.soak.editions import Ranking
from tests.torture.soak.judge import Version

PREFIX = "soak/"  # of the ids that are written
SHOWN = 10  # wrong answers that are described
Impacts = Mapping[int, int]  # term id → impact


@dataclass
class State:
    """An image as it was written.

    Attributes:
        impacts: None if it was deleted.
        since: when the request was sent.
        until: when a later state was certain to be found in its place.
    """

    impacts: Impacts | None
    since: float
    until: float = math.inf

    def score(self, query: TermQuery) -> float:
        """For a query, 0 if it cannot be found."""
        impacts = self.impacts or {}
        return float(sum(count * impacts.get(term, 0) for term, count in query.terms.items()))


@dataclass
class Written:
    """Every state of every image that is written, by its id."""

    states: dict[str, list[State]] = field(default_factory=dict)

    def sent(self, image_id: str, impacts: Impacts | None, now: float) -> None:
        """A request for a state is sent."""
        before = self.states.setdefault(image_id, [State(None, -math.inf)])
        before.append(State(impacts, now))

    def found(self, image_id: str, now: float) -> None:
        """The last state was acknowledged, and all searches find it."""
        *before, last = self.states[image_id]
        for state in before:
            state.until = min(state.until, now)
        # Nothing that ended before any search which still runs is asked for again.
        self.states[image_id] = [state for state in before if state.until > now - 600] + [last]

    def visible(self, image_id: str, start: float, end: float) -> list[State]:
        """The states that a search between two moments may see."""
        return [
            state for state in self.states[image_id] if state.since <= end and state.until >= start
        ]


class LiveJudge:
    """Checks answers of an index of which some images never change, and others are written.

    Attributes:
        written: by the clients.
        wrong: descriptions of the first wrong answers.
        wrong_count: how many there were.
        written_hits: hits among the answers that clients have written.
        misplaced: none; see `Judge`.
        unserved: none.
    """

    misplaced = unserved = 0

    def __init__(self, queries: Sequence[TermQuery], right: Mapping[str, Ranking], k: int) -> None:
        self._queries = {query.text: query for query in queries}
        self._right, self._k = right, k
        self.written = Written()
        self.wrong: list[str] = []
        self.wrong_count = self.written_hits = 0

    def check(self, text: str, answer: SearchAnswer, start: float, end: float) -> None:
        """Check an answer that arrived at `end` to a query sent at `start`."""
        query = self._queries[text]
        hits = [(-hit.score, hit.image_id) for hit in answer.hits]
        if hits != sorted(set(hits)):
            self._note(f"{text!r}: hits are not in order")
        own = {name: -score for score, name in hits if name.startswith(PREFIX)}
        self.written_hits += len(own)
        full = len(hits) >= self._k
        last = hits[-1] if full else (0.0, "")
        rest = [(name, -score) for score, name in hits if name not in own]
        self._check_rest(text, rest, last)
        for name, states in self.written.states.items():
            scores = [state.score(query) for state in self.written.visible(name, start, end)]
            if name in own and own[name] not in scores:
                self._note(f"{text!r}: {name} has {own[name]} of {scores}, {len(states)} states")
            elif name not in own and all(score and (-score, name) < last for score in scores):
                self._note(f"{text!r}: {name} of {scores} is missing before {last}")
        for hit in answer.hits:
            if hit.explanation is not None and sum(t.score for t in hit.explanation) != hit.score:
                self._note(f"{text!r}: {hit.image_id} is explained with another score")

    def _check_rest(
        self, text: str, rest: Sequence[tuple[str, float]], last: tuple[float, str]
    ) -> None:
        """The images that never change must be the first of their ranking."""
        right = self._right[text]
        if tuple(rest) != right[: len(rest)]:
            self._note(f"{text!r}: {rest[:3]}… are not {right[:3]}…")
        for name, score in right[len(rest) : len(rest) + 1]:
            if (-score, name) < last:
                self._note(f"{text!r}: {name} of {score} is missing before {last}")

    def _note(self, text: str) -> None:
        self.wrong_count += 1
        if len(self.wrong) < SHOWN:
            self.wrong.append(text)

    def register(self, name: str, version: Version) -> None:
        """The index was built."""

    def versions(self) -> list[dict[str, Any]]:
        """None of a rebuilt index."""
        return []

    def check_images(
        self, where: str, found: Iterable[tuple[str, Impacts | None]], start: float, end: float
    ) -> None:
        """Compare images as they were read with what was written.

        Args:
            where: they were read, for the description.
            found: images with their impacts, None for an image that is not there.
            start: of reading, by `perf_counter`; infinite for the last states.
            end: of reading.
        """
        for name, impacts in found:
            states = [state.impacts for state in self.written.visible(name, start, end)]
            if impacts not in states:
                self._note(f"{where}, {name} has {impacts} of {states}")
