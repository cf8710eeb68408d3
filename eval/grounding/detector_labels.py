"""Agreement of the grounding of terms with the labels of an object detector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from eval.grounding.explained_pairs import explain_all
from eval.recall.images import Images
from indexer.grounding import pack
from indexer.lucene.reader import LuceneIndex
from indexer.search.api import TermExplanation
from indexer.search.lucene import LuceneSearcher
from sparta.captions.record import CaptionedPhoto
from sparta.features.store import FeatureStore
from sparta.progress import Progress, no_progress
from sparta.tokenizer import Tokenizer

KINDS = ("whole photo", "box", "label token")


@dataclass(frozen=True)
class NamedTerms:
    """Terms of captions that are also words of a region's label, or attribute.

    Attributes:
        terms: how many, each once per caption.
        by_region: share (0 to 1) won by the visual vector of a region with that word.
        by_label: share won by a label token of a region with that word.
        chance: mean share of the photo's regions with that word: a random choice.
    """

    terms: int
    by_region: float
    by_label: float
    chance: float


@dataclass(frozen=True)
class LabelAgreement:
    """What won the terms of captions in their photos.

    Attributes:
        captions: how many.
        terms: their terms that the photo has in the index, each once per caption.
        won: share (0 to 1) of the terms won by the whole photo, a box, a label token.
        named: "label" and "attribute" → terms that are words of a region's label, or attribute.
        bytes_per_posting: size of the photos' groundings before Lucene compresses them.
    """

    captions: int
    terms: int
    won: dict[str, float]
    named: dict[str, NamedTerms]
    bytes_per_posting: float

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        return vars(self) | {"named": {kind: vars(found) for kind, found in self.named.items()}}

    def table(self) -> Table:
        """The figures as a table, in percent."""
        table = Table("terms", "count", *KINDS, "right region", "right label", "chance")
        table.columns[0].no_wrap = True
        won = [f"{100 * self.won[kind]:.1f}" for kind in KINDS]
        table.add_row("all", f"{self.terms:,}", *won, "", "", "")
        for kind, found in self.named.items():
            shares = found.by_region, found.by_label, found.chance
            right = [f"{100 * share:.1f}" for share in shares]
            table.add_row(f"{kind}s", f"{found.terms:,}", "", "", "", *right)
        table.caption = f"groundings take {self.bytes_per_posting:.2f} bytes a posting, packed"
        return table


def measure_label_agreement(
    searcher: LuceneSearcher,
    tokenizer: Tokenizer,
    store: FeatureStore,
    photos: Sequence[CaptionedPhoto],
    progress: Progress = no_progress,
) -> LabelAgreement:
    """Explain every caption's score for its photo, and compare the winners with the labels.

    Args:
        searcher: of an index of the store.
        tokenizer: the index's.
        store: with the regions' labels and attributes.
        photos: with captions.
        progress: of the stage "explain", in photos.

    Raises:
        InputError: if the store or the index lacks a photo.
    """
    rows = Images.of(store, [photo.image_id for photo in photos]).rows
    won: list[str] = []
    named: dict[str, list[_Named]] = {"label": [], "attribute": []}
    for done, (photo, row) in enumerate(zip(photos, rows, strict=True), start=1):
        image = store[row]
        called = {
            "label": _called(tokenizer, image.labels),
            "attribute": _called(tokenizer, image.attributes),
        }
        pairs = [(photo.image_id, text) for text in photo.captions]
        for one in explain_all(searcher, pairs):
            grounded = [term for term in one.terms if term.impact and term.region is not None]
            won += [_kind(term) for term in grounded]
            for kind, regions in called.items():
                named[kind] += [
                    _compare(term, regions[term.term], len(image.labels))
                    for term in grounded
                    if term.term in regions
                ]
        progress("explain", done, len(photos))
    counts = Counter(won)
    return LabelAgreement(
        captions=sum(len(photo.captions) for photo in photos),
        terms=len(won),
        won={kind: counts[kind] / max(1, len(won)) for kind in KINDS},
        named={kind: _mean(judged) for kind, judged in named.items()},
        bytes_per_posting=_packed_size(searcher.index, [photo.image_id for photo in photos]),
    )


def _packed_size(index: LuceneIndex, ids: Sequence[str]) -> float:
    """Mean bytes per posting of some images' groundings, packed."""
    documents = [document for one in ids if (document := index.document(one)) is not None]
    groundings = [index.grounding(document) for document in documents]
    postings = sum(len(grounding.terms) for grounding in groundings)
    return sum(len(pack(grounding)) for grounding in groundings) / max(1, postings)


class _Named(NamedTuple):
    """One term of `NamedTerms`."""

    by_region: bool
    by_label: bool
    chance: float


def _called(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, set[int]]:
    """Word piece → the regions whose words contain it."""
    found: dict[str, set[int]] = {}
    for region, own in enumerate(words):
        for piece in tokenizer.encode_query(own).pieces:
            found.setdefault(piece, set()).add(region)
    return found


def _kind(term: TermExplanation) -> str:
    if term.label is not None:
        return "label token"
    return "whole photo" if term.whole else "box"


def _compare(term: TermExplanation, called: set[int], regions: int) -> _Named:
    right, by_label = term.region in called, term.label is not None
    return _Named(right and not by_label, right and by_label, len(called) / regions)


def _mean(judged: Sequence[_Named]) -> NamedTerms:
    shares = np.array(judged, np.float64).reshape(-1, 3).sum(axis=0) / max(1, len(judged))
    return NamedTerms(len(judged), *shares.tolist())
