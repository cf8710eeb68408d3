"""Searches for one word without another: what is among the first ten hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eval.exclusion.truth import Flags
from indexer.query.query import Query
from indexer.search.api import Allowed, Searcher
from sparta.captions.read import CaptionedPhoto
from sparta.progress import Progress, no_progress

HITS = 10

# Name → the query for a word without another.
WAYS: dict[str, Callable[[str, str], str | Query]] = {
    "word": lambda word, other: Query.plain(word),
    "word without a other": lambda word, other: Query.plain(f"{word} without a {other}"),
    "word -other": lambda word, other: f"{word} -{other}",
}


@dataclass(frozen=True)
class SearchRow:
    """Means over pairs of words.

    Attributes:
        query: how the query was written.
        with_other: percent of the first ten hits that have the other word.
        right: percent that have the word, and not the other.
        hits: number of hits.
    """

    query: str
    with_other: float
    right: float
    hits: float


def search_pairs(
    searcher: Searcher,
    photos: Sequence[CaptionedPhoto],
    truth: dict[str, Flags],
    pairs: Sequence[tuple[str, str]],
    allowed: Allowed,
    progress: Progress = no_progress,
) -> list[SearchRow]:
    """Search with every pair, in every way that the searcher can.

    Args:
        searcher: of an index with the photos, and perhaps others.
        photos: among which is searched.
        truth: word → [photos] which have it.
        pairs: words, each with another one.
        allowed: [documents] those of the photos.
        progress: of the stage "search", in queries.
    """
    places = {photo.image_id: place for place, photo in enumerate(photos)}
    rows = []
    for number, (name, query) in enumerate(WAYS.items()):
        shares = np.zeros((len(pairs), 3))
        for done, (word, other) in enumerate(pairs):
            hits = searcher.search(query(word, other), HITS, allowed=allowed).hits
            found = [places[hit.image_id] for hit in hits]
            own, wrong = truth[word][found], truth[other][found]
            shares[done] = wrong.sum(), (own & ~wrong).sum(), len(found)
            progress("search", number * len(pairs) + done + 1, len(WAYS) * len(pairs))
        with_other, right, hits_found = shares.mean(axis=0).tolist()
        rows.append(SearchRow(name, 100 * with_other / HITS, 100 * right / HITS, hits_found))
    return rows
