"""A searcher over a handful of drawn photos, small enough to check every number by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from indexer.grounding import Box, WinningLabel
from indexer.query import parsed, plain_text
from indexer.query import Clause, Query
from indexer.search.api import (
    Allowed,
    Condition,
    Explanation,
    Hit,
    SearchResult,
    SimilarResult,
    Substitution,
    TermExplanation,
    Timings,
    UnknownImageError,
    ids_of,
)
from indexer.search.terms.query_by_image import image_query, images_and_words, repeated_terms
from indexer.search.words import Completion, HeldWord, HeldWords, WordList

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
LEFT: Box = (0.1, 0.2, 0.5, 0.7)
RIGHT: Box = (0.5, 0.25, 0.875, 0.9)


@dataclass(frozen=True)
class Drawing:
    """A photo: its size, its ground's colour, and term → (impact, box) of what is drawn.

    Terms that a label's token won have that label.
    """

    size: tuple[int, int]
    ground: str
    terms: dict[str, tuple[int, Box]]
    labels: dict[str, WinningLabel] = field(default_factory=dict)


DRAWINGS = {
    "garden/one.png": Drawing(
        (320, 240),
        "darkgreen",
        {"red": (200, LEFT), "green": (90, WHOLE)},
        {"green": WinningLabel("green", "dark green")},
    ),
    "garden/two.jpg": Drawing((240, 320), "olive", {"red": (120, RIGHT), "blue": (210, LEFT)}),
    "sea/a b.webp": Drawing((400, 200), "teal", {"blue": (150, WHOLE), "green": (40, RIGHT)}),
    "sea/100% #1?&+;=.png": Drawing((300, 300), "navy", {"blue": (151, RIGHT)}),
    "Straße/海 é.jpg": Drawing((300, 200), "gray", {"red": (20, RIGHT)}),
}
VOCABULARY = {"red", "green", "blue", "purple"}
SUBSTITUTES = {"azure": Substitution("azure", "blue", 0.75)}


def draw(folder: Path) -> Path:
    """Draw all photos into the folder: grounds with a box of each term's colour."""
    for image_id, drawing in DRAWINGS.items():
        image = Image.new("RGB", drawing.size, drawing.ground)
        width, height = drawing.size
        for term, (_, (x1, y1, x2, y2)) in drawing.terms.items():
            if (x1, y1, x2, y2) != WHOLE:
                corners = (x1 * width, y1 * height, x2 * width, y2 * height)
                ImageDraw.Draw(image).rectangle(corners, fill=term)
        path = folder / image_id
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    return folder


@dataclass
class FakeSearcher:
    """Sums impacts over the drawings, with a substitute for "azure"; "explode" stands for a bug.

    Attributes:
        drawings: what is indexed.
        closed: whether `close` was called.
        rare: words that training rarely saw.
    """

    drawings: dict[str, Drawing] = field(default_factory=lambda: dict(DRAWINGS))
    closed: bool = False
    rare: frozenset[str] = frozenset()

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        query = parsed(query)
        if "explode" in query.text:
            raise RuntimeError("secret internals at /home/someone/index")
        explained = [self.explain(query, i, substitute=substitute) for i in self.drawings]
        found = [one for one in explained if one.score > 0 and not one.against]
        found = [one for one in found if (one.coverage or 0) >= (min_coverage or 0)]
        best = sorted(found, key=lambda one: (-one.score, one.image_id))[:k]
        hits = [
            Hit(n, one.image_id, one.score, self.metadata(one.image_id))
            for n, one in enumerate(best, start=1)
        ]
        if min_coverage is not None:
            hits = [
                replace(hit, coverage=one.coverage) for hit, one in zip(hits, best, strict=True)
            ]
        words = _searched(query)
        unknown = [word for word in dict.fromkeys(words) if word.lower() not in VOCABULARY]
        replaced = [SUBSTITUTES[word] for word in unknown if substitute and word in SUBSTITUTES]
        if substitute:
            unknown = [word for word in unknown if word not in SUBSTITUTES]
        conditions = [
            Condition(clause.text, clause.sign, sum(_has(one, clause) for one in self._all()))
            for clause in query.clauses
            if clause.sign
        ]
        return SearchResult(
            hits,
            unknown,
            Timings(0.25, 1.0, 1.25),
            rare=[word for word in dict.fromkeys(words) if word in self.rare],
            substitutions=replaced,
            conditions=conditions,
        )

    def _all(self) -> Iterable[Drawing]:
        return self.drawings.values()

    def explain(self, query: str | Query, image_id: str, *, substitute: bool = True) -> Explanation:
        drawing = self._drawing(image_id)
        query = parsed(query)
        found = drawing.terms
        searched = _searched(query)
        words = {word.lower(): word for word in reversed(searched)}
        terms_of = {word: near.term for word, near in SUBSTITUTES.items()} if substitute else {}
        typed = [terms_of.get(word, word.lower()) for word in searched]
        counts = Counter(term for term in typed if term in VOCABULARY)
        terms = []
        for term, count in counts.items():
            impact, box = found.get(term, (0, None))
            region = list(found).index(term) if box else None
            winner = region, box, drawing.labels.get(term)
            near = next((s for s in SUBSTITUTES.values() if s.term == term not in words), None)
            word = near.word if near else words[term]
            found_there = (word, count, impact, count * impact, *winner)
            terms.append(TermExplanation(term, *found_there, near.similarity if near else None))
        against = [
            clause.sign + clause.text
            for clause in query.clauses
            if clause.sign and _has(drawing, clause) == (clause.sign == "-")
        ]
        coverage = sum(bool(term.impact) for term in terms) / max(1, len(terms))
        return Explanation(image_id, sum(term.score for term in terms), terms, against, coverage)

    def complete(self, text: str, most: int = 10) -> list[Completion]:
        return self._words().complete(text, most)

    def correct(self, word: str, most: int = 3) -> list[HeldWord]:
        return self._words().correct(word, most)

    def _words(self) -> HeldWords:
        known = WordList(VOCABULARY)
        images = [sum(word in one.terms for one in self._all()) for word in known.words]
        return HeldWords(known, np.array(images), lambda _: True)

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        impacts = Counter[str]()
        for one in ids_of(image_id):
            impacts.update({term: impact for term, (impact, _) in self._drawing(one).terms.items()})
        query = parsed(words)
        terms = images_and_words(dict(sorted(impacts.items())), _searched(query))
        signed = "".join(f" {clause.sign}{clause.text}" for clause in query.clauses if clause.sign)
        found = self.search(repeated_terms(terms) + signed, len(self.drawings)).hits
        rest = [hit for hit in found if hit.image_id not in ids_of(image_id)][:k]
        hits = [replace(hit, rank=rank) for rank, hit in enumerate(rest, start=1)]
        spoken = self.search(words)
        timings = Timings(0.5, 1.5, 2.0)
        return SimilarResult(
            hits, [], timings, terms, rare=spoken.rare, conditions=spoken.conditions
        )

    def similar_to(
        self, impacts: Mapping[str, int], k: int = 10, *, allowed: Allowed | None = None
    ) -> SimilarResult:
        query = image_query(impacts)
        found = self.search(repeated_terms(query), k)
        return SimilarResult(found.hits, [], Timings(0.5, 1.5, 2.0), query)

    def explain_all(
        self,
        query: str | Query | Mapping[str, int],
        image_ids: Sequence[str],
        *,
        substitute: bool = True,
    ) -> list[Explanation]:
        text = repeated_terms(query) if isinstance(query, Mapping) else query
        return [self.explain(text, image_id, substitute=substitute) for image_id in image_ids]

    def metadata(self, image_id: str) -> dict[str, Any]:
        width, height = self._drawing(image_id).size
        return {"width": width, "height": height}

    def _drawing(self, image_id: str) -> Drawing:
        # Ends an id at a NUL, as a native string does on its way into Java.
        image_id = image_id.split("\0")[0]
        if image_id not in self.drawings:
            raise UnknownImageError(image_id)
        return self.drawings[image_id]

    def __len__(self) -> int:
        return len(self.drawings)

    def close(self) -> None:
        self.closed = True


def _searched(query: Query) -> list[str]:
    """The words that are not excluded, each as often as it counts."""
    return [
        word
        for clause in query.clauses
        if clause.sign != "-"
        for word in clause.text.split() * clause.weight
    ]


def _has(drawing: Drawing, clause: Clause) -> bool:
    return clause.text.lower() in drawing.terms


class FakeDense:
    """Finds every drawing, at a thousandth of its score, the smaller photos in their view 1."""

    def __init__(self) -> None:
        self._sparse = FakeSearcher()

    def search(
        self,
        query: str | Query,
        k: int = 10,
        *,
        substitute: bool = True,
        allowed: Allowed | None = None,
        min_coverage: float | None = None,
    ) -> SearchResult:
        query = plain_text(query)
        drawings = self._sparse.drawings
        explain = partial(self._sparse.explain, query, substitute=False)
        scores = {image_id: explain(image_id).score / 1000 for image_id in drawings}
        best = sorted((-score, i) for i, score in scores.items())[:k]
        hits = [
            Hit(n, i, -score, self.metadata(i), int(drawings[i].size[0] < 320))
            for n, (score, i) in enumerate(best, start=1)
        ]
        unknown = [word for word in query.split() if word.lower() not in VOCABULARY]
        return SearchResult(hits, unknown, Timings(0.25, 1.0, 13.75, 12.5))

    def similar(
        self,
        image_id: str | Sequence[str],
        k: int = 10,
        *,
        words: str | Query = "",
        allowed: Allowed | None = None,
    ) -> SimilarResult:
        terms = self._sparse.similar(image_id).terms
        found = self.search(repeated_terms(terms), len(self)).hits
        rest = [hit for hit in found if hit.image_id not in ids_of(image_id)][:k]
        hits = [replace(hit, rank=rank) for rank, hit in enumerate(rest, start=1)]
        return SimilarResult(hits, [], Timings(0.0, 2.0, 2.0), {})

    def metadata(self, image_id: str) -> dict[str, Any]:
        return self._sparse.metadata(image_id)

    def __len__(self) -> int:
        return len(self._sparse)

    def close(self) -> None:
        self._sparse.close()
