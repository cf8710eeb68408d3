"""Judges the answers of a server that clients write to: nothing wrong, nothing lost.

A change may be found from the moment its request is sent. The state before it may be found until a
later change of the same image is acknowledged by a request that waited for searches to find it.
"""

import math
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from indexer.maintenance.copies import take_snapshot
from indexer.postings import Postings
from indexer.store.snapshot import Snapshot
from indexer.verify import verify_index
from server.client.answers import SearchAnswer
from tests.indexer.vocabulary import small_tokenizer

PREFIX = "soak/"  # of the ids that clients write
SHOWN = 10  # wrong answers that are described
IMPACTS = (1, 2, 3, 4, 255)  # of written images, as in the index
REMEMBERED = 600.0  # seconds that a replaced state is kept, longer than any search

Impacts = Mapping[int, int]  # term id → impact
Terms = Mapping[int, int]  # term id → how often a query has it
Ranking = tuple[tuple[str, float], ...]  # ids and scores, the best first
Found = list[tuple[str, Impacts | None]]  # ids and impacts, None for an image that is missing


@dataclass
class State:
    """An image as a client wrote it.

    Attributes:
        impacts: None if the client deleted it.
        since: when the request was sent.
        until: when a later state was certain to be found in its place.
    """

    impacts: Impacts | None
    since: float
    until: float = math.inf

    def score(self, terms: Terms) -> float:
        """Score for a query, 0 if it does not find the image."""
        impacts = self.impacts or {}
        return float(sum(count * impacts.get(term, 0) for term, count in terms.items()))


@dataclass
class Written:
    """All states of all images that clients write, by image id."""

    states: dict[str, list[State]] = field(default_factory=dict)

    def sent(self, image_id: str, impacts: Impacts | None) -> None:
        """A request for a new state is about to be sent."""
        before = self.states.setdefault(image_id, [State(None, -math.inf)])
        before.append(State(impacts, perf_counter()))

    def found(self, image_id: str) -> None:
        """The last state was acknowledged, and all searches find it."""
        now = perf_counter()
        *before, last = self.states[image_id]
        for state in before:
            state.until = min(state.until, now)
        self.states[image_id] = [one for one in before if one.until > now - REMEMBERED] + [last]

    def visible(self, image_id: str, start: float, end: float) -> list[State]:
        """The states that a search between two moments may find."""
        return [one for one in self.states[image_id] if one.since <= end and one.until >= start]


class Judge:
    """Compares answers with the images that never change and with those that clients write.

    Attributes:
        written: by the clients.
        wrong_count: number of wrong answers.
        answers: number of answers by version of the index.
        written_hits: hits that clients have written.
    """

    def __init__(self, queries: Iterable[str], k: int) -> None:
        tokenizer, self._k = small_tokenizer(), k
        ids = {term: number for number, term in enumerate(tokenizer.vocabulary)}
        self._queries: dict[str, Terms] = {
            text: {ids[term]: count for term, count in tokenizer.encode_query(text).terms.items()}
            for text in queries
        }
        self._right: dict[str, dict[str, Ranking]] = {}  # version → query → best images
        self._wrong: list[str] = []
        self.written = Written()
        self.wrong_count = self.written_hits = 0
        self.answers: Counter[str] = Counter()

    def serves(self, images: Postings, *versions: str) -> dict[str, Ranking]:
        """Expect answers of an index; returns them, by a plain product of matrices."""
        matrix = np.zeros((len(images.ids), len(small_tokenizer().vocabulary)), np.int64)
        rows = np.repeat(np.arange(len(images.ids)), np.diff(images.starts))
        matrix[rows, images.terms] = images.impacts
        right = {}
        for text, terms in self._queries.items():
            scores = matrix[:, list(terms)] @ np.array(list(terms.values()))
            ranked = sorted((-int(score), images.ids[n]) for n, score in enumerate(scores) if score)
            right[text] = tuple((name, float(-score)) for score, name in ranked[: self._k])
        self._right |= dict.fromkeys(versions, right)
        return right

    def draw(self, draw: random.Random) -> Impacts:
        """Random impacts of an image that one of the queries finds."""
        return {term: draw.choice(IMPACTS) for term in draw.choice(list(self._queries.values()))}

    def note(self, text: str) -> None:
        """Something is wrong."""
        self.wrong_count += 1
        if len(self._wrong) < SHOWN:
            self._wrong.append(text)

    def described(self) -> list[str]:
        """What is wrong: the first ten, and how many in all."""
        more = self.wrong_count - len(self._wrong)
        return [*self._wrong, *([f"and {more} more"] if more else [])]

    def check(self, text: str, answer: SearchAnswer, start: float, end: float) -> None:
        """Check an answer that arrived at `end` to a query sent at `start`."""
        version = answer.index_version.partition(".")[0]  # the commit follows the dot
        self.answers[version] += 1
        if version not in self._right:
            self.note(f"{text!r}: version {version} was never served")
            return
        hits = [(-hit.score, hit.image_id) for hit in answer.hits]
        if hits != sorted(set(hits)) or len(hits) > self._k:
            self.note(f"{text!r}: {len(hits)} hits, not in order or too many")
        last = hits[-1] if len(hits) >= self._k else (0.0, "")
        own = {name: -score for score, name in hits if name.startswith(PREFIX)}
        rest = tuple((name, -score) for score, name in hits if name not in own)
        self.written_hits += len(own)
        self._check_unchanged(text, rest, self._right[version][text], last)
        self._check_written(text, own, last, start, end)
        for hit in answer.hits:
            if hit.explanation is not None and sum(t.score for t in hit.explanation) != hit.score:
                self.note(f"{text!r}: {hit.image_id} is explained with another score")

    def _check_unchanged(
        self, text: str, rest: Ranking, right: Ranking, last: tuple[float, str]
    ) -> None:
        """The images that never change must be the first of their ranking."""
        if rest != right[: len(rest)]:
            self.note(f"{text!r}: {rest[:3]}… are not {right[:3]}…")
        for name, score in right[len(rest) : len(rest) + 1]:
            if (-score, name) < last:
                self.note(f"{text!r}: {name} of {score} is missing before {last}")

    def _check_written(
        self, text: str, own: dict[str, float], last: tuple[float, str], start: float, end: float
    ) -> None:
        """Images that clients write must have the score of a state that was visible."""
        if unknown := own.keys() - self.written.states.keys():
            self.note(f"{text!r}: {sorted(unknown)} were never sent")
        for name in self.written.states:
            states = self.written.visible(name, start, end)
            scores = [state.score(self._queries[text]) for state in states]
            if name in own and own[name] not in scores:
                self.note(f"{text!r}: {name} has {own[name]} of {scores}")
            elif name not in own and all(score and (-score, name) < last for score in scores):
                self.note(f"{text!r}: {name} of {scores} is missing before {last}")

    def check_images(self, where: str, found: Found, start: float, end: float) -> None:
        """Compare images that were read from an index with what was written."""
        for name, impacts in found:
            states = [state.impacts for state in self.written.visible(name, start, end)]
            if impacts not in states:
                self.note(f"{where}, {name} has {impacts} of {states}")


def read_images(index: Path, ids: Iterable[str]) -> Found:
    """Read images with their impacts out of an index."""
    found: Found = []
    images = Snapshot.open(index)
    for image_id in ids:
        document = images.document(image_id)
        if document is None:
            found.append((image_id, None))
            continue
        [image] = images.images([document])
        pairs = zip(image.terms.tolist(), image.impacts.tolist(), strict=True)
        found.append((image_id, dict(pairs)))
    return found


def read_snapshot(index: Path, ids: Sequence[str]) -> tuple[list[str], Found, float, float]:
    """Take a snapshot, verify it, read images out of it and remove it."""
    out = index.with_name("snapshot")
    start = perf_counter()
    take_snapshot(index, out)
    end = perf_counter()
    try:
        return verify_index(out), read_images(out, ids), start, end
    finally:
        shutil.rmtree(out)
