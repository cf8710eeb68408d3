"""Searchers over a handful of drawn photos, small enough to check every number by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from indexer.answer import Answer, Box, Timings, Version, WinningLabel
from indexer.filters.expression import FilterError
from indexer.grounding import pack_all
from indexer.postings import ImagePostings, Inputs, Postings
from indexer.query import Query
from indexer.search.engine import (
    Capability,
    Documents,
    Fact,
    Found,
    Needs,
    Page,
    Plan,
    Statistics,
    Survey,
    hit_order,
)
from indexer.search.reader import Language
from indexer.search.searcher import Searcher
from indexer.store.images import UnknownImageError
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import RARE_TERMS, SPELLING, Substitute, WordTables

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
TERMS = ["[PAD]", "[UNK]", *sorted(VOCABULARY), "dark", "azure"]  # in id order
SUBSTITUTES = {"azure": (Substitute("blue", 0.75),)}
VERSION = Version(((0, "", 0),))
ABILITIES = frozenset(Capability) - {Capability.FILTER, Capability.BROWSE, Capability.QUICK}


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


def postings_of(image_id: str, drawing: Drawing) -> ImagePostings:
    terms = sorted(drawing.terms, key=TERMS.index)
    width, height = drawing.size
    places = list(drawing.terms)
    positions = {term: place for place, term in enumerate(places)}
    labels: list[tuple[int, int]] = []
    for term, label in drawing.labels.items():
        pieces = label.words.split()
        positions[term] = len(places) + len(labels) + pieces.index(label.token)
        labels += [(TERMS.index(piece), places.index(term)) for piece in pieces]
    return ImagePostings(
        image_id,
        {"width": width, "height": height},
        np.array([TERMS.index(term) for term in terms], np.int32),
        np.array([drawing.terms[term][0] for term in terms], np.int32),
        np.array([positions[term] for term in terms], np.int16),
        Inputs(
            np.array([box for _, box in drawing.terms.values()], np.float32),
            np.array([piece for piece, _ in labels], np.int32),
            np.array([region for _, region in labels], np.int16),
        ),
    )


def tokenizer() -> TermTokenizer:
    inner = Tokenizer(models.WordPiece({t: i for i, t in enumerate(TERMS)}, unk_token="[UNK]"))
    inner.normalizer = normalizers.BertNormalizer()
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.add_special_tokens(TERMS[:2])
    return TermTokenizer(inner)


def language(rare: frozenset[str] = frozenset()) -> Language:
    """What queries are read with; training rarely saw some terms."""
    words = ", ".join(f'"{word}"' for word in sorted(rare))
    files = {RARE_TERMS: f'{{"photos": 10, "terms": [{words}]}}'.encode()}
    files[SPELLING] = b'{"frequent": [], "other": ["creek"]}'
    tables = WordTables({**WordTables.of(SUBSTITUTES).files, **files})
    return Language(tokenizer(), tables, 8)


class DrawnEngine:
    """Sums impacts over drawings, one after the other; it knows no fields."""

    name = "columns"

    def __init__(self, drawings: Mapping[str, Drawing], can: frozenset[Capability]) -> None:
        self.drawings, self.can = drawings, can
        self.closed = False

    def _impacts(self, image_id: str) -> dict[int, int]:
        if image_id not in self.drawings:
            raise UnknownImageError(image_id)
        found = self.drawings[image_id].terms
        return {TERMS.index(term): impact for term, (impact, _) in found.items()}

    def _has(self, image_id: str, needs: Needs) -> bool:
        own = self._impacts(image_id)
        return bool(needs.least) and all(own.get(term, 0) >= least for term, least in needs.least)

    def metadata(self, image_id: str) -> dict[str, Any]:
        width, height = self.drawings[image_id].size
        return {"width": width, "height": height}

    def statistics(self, terms: Sequence[int] = (), *facts: Fact) -> Statistics:
        every = [self._impacts(image_id) for image_id in self.drawings]
        largest = [max((own.get(term, 0) for own in every), default=0) for term in terms]
        counts = Counter(term for own in every for term in own)
        found = np.array([counts[term] for term in range(len(TERMS))], np.int64)
        return Statistics(
            VERSION,
            len(every),
            0,
            largest=np.array(largest, np.int64),
            frequencies=found[[*terms]],
            bounds=np.stack([found, found]),
            kinds={},
        )

    def top(self, plan: Plan, k: int) -> Found:
        if plan.filter is not None:
            raise FilterError("the images have no fields")
        scores = {}
        for image_id in self.drawings.keys() - {*plan.like}:
            own = self._impacts(image_id)
            score = sum(count * own.get(term, 0) for term, count in plan.terms.items())
            right = all(self._has(image_id, one) == one.required for one in plan.signed)
            share = sum(one.weight for one in plan.weighed if self._has(image_id, one))
            if score and right and share >= plan.min_coverage - 1e-9:
                scores[image_id] = float(score)
        best = sorted(scores, key=lambda image_id: hit_order(image_id, scores[image_id]))[:k]
        having = [sum(self._has(one, needs) for one in self.drawings) for needs in plan.signed]
        found = [scores[one] for one in best]
        return Found(VERSION, best, found, [self.metadata(one) for one in best], having)

    def survey(self, plan: Plan, page: Page) -> Survey:
        raise NotImplementedError

    def documents(
        self, image_ids: Sequence[str], terms: Sequence[int] | None, grounded: bool = False
    ) -> Documents:
        every = [self._impacts(image_id) for image_id in image_ids]
        wanted = sorted({term for own in every for term in own}) if terms is None else [*terms]
        impacts = [[own.get(term, 0) for term in wanted] for own in every]
        images = [postings_of(one, self.drawings[one]) for one in image_ids] if grounded else []
        return Documents(
            VERSION,
            [self.metadata(one) for one in image_ids],
            wanted,
            np.array(impacts, np.int64).reshape(len(every), len(wanted)),
            pack_all(Postings.of(images)) if grounded else None,
        )

    def refreshed(self) -> None:
        """Nothing is written."""

    def close(self) -> None:
        self.closed = True


class FakeSearcher(Searcher):
    """Searches the drawings, with a substitute for "azure"; "explode" stands for a bug.

    Attributes:
        drawings: what is indexed.
        rare: terms that training rarely saw.
    """

    engine: DrawnEngine

    def __init__(
        self,
        drawings: Mapping[str, Drawing] = DRAWINGS,
        rare: frozenset[str] = frozenset(),
        quick: bool = False,
    ) -> None:
        self.drawings = dict(drawings)
        can = ABILITIES | {Capability.QUICK} if quick else ABILITIES
        super().__init__(DrawnEngine(self.drawings, can), language(rare))

    @property
    def closed(self) -> bool:
        return self.engine.closed

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        if "explode" in (query if isinstance(query, str) else query.text):
            raise RuntimeError("secret internals at /home/someone/index")
        return timed(super().search(query, k, **options), 0.25, 1.0)

    def similar(self, image_ids: str | Sequence[str], k: int = 10, **options: Any) -> Answer:
        return timed(super().similar(image_ids, k, **options), 0.5, 1.5)


def timed(answer: Answer, tokenise: float, search: float, encode: float = 0.0) -> Answer:
    """An answer that took so many milliseconds."""
    explain = answer.timings.explain_ms
    answer.timings = Timings(tokenise, search, tokenise + search + encode, encode, explain)
    return answer


class DenseDrawnEngine(DrawnEngine):
    """Finds every drawing, at a thousandth of its score, the smaller photos in their view 1."""

    name = "dense"

    def top(self, plan: Plan, k: int) -> Found:
        words = plan.text.split()
        asked = Counter(TERMS.index(one.lower()) for one in words if one.lower() in VOCABULARY)
        for image_id in plan.like:
            asked.update(self._impacts(image_id))
        scores = {}
        for image_id in self.drawings.keys() - {*plan.like}:
            own = self._impacts(image_id)
            scores[image_id] = sum(n * own.get(term, 0) for term, n in asked.items()) / 1000
        best = sorted(scores, key=lambda image_id: hit_order(image_id, scores[image_id]))[:k]
        return Found(
            VERSION,
            best,
            [scores[one] for one in best],
            [self.metadata(one) for one in best],
            views=[int(self.drawings[one].size[0] < 320) for one in best],
            unknown=[one for one in words if one.lower() not in VOCABULARY],
        )


class FakeDense(Searcher):
    """A dense model of the drawings."""

    def __init__(self) -> None:
        can = frozenset({Capability.FILTER, Capability.SIMILAR})
        super().__init__(DenseDrawnEngine(DRAWINGS, can), language())

    def search(self, query: str | Query, k: int = 10, **options: Any) -> Answer:
        return timed(super().search(query, k, **options), 0.25, 1.0, 12.5)
