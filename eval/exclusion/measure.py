"""Exclusion by presence: of the photos that should go, how many do, and how many go wrongly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eval.exclusion.truth import BANDS, Band, Flags, band_of, photos_by_word
from indexer.search.lucene import LuceneSearcher
from indexer.search.terms.presence import least_impact
from indexer.search.terms.query_reader import spoken_pieces
from sparta.captions.read import CaptionedPhoto
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

# Shares of a term's largest impact with which a photo would have the term.
SHARES = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True)
class BandRow:
    """The words of a band at one share, all photos of all words counted together.

    Attributes:
        band: its name.
        words: how many.
        should_go: photos with the excluded word.
        go_rightly: of these, those that are excluded.
        go_wrongly: excluded photos without the word.
        photos: compared, with the word or without it.
        f1: mean over words of the F1 of what is excluded.
    """

    band: str
    words: int
    should_go: int
    go_rightly: int
    go_wrongly: int
    photos: int
    f1: float

    @property
    def rightly(self) -> float:
        """Percent of the photos that should go, which go."""
        return 100 * self.go_rightly / max(1, self.should_go)

    @property
    def wrong(self) -> float:
        """Percent of the photos that go, which should not."""
        return 100 * self.go_wrongly / max(1, self.go_rightly + self.go_wrongly)

    @property
    def lost(self) -> float:
        """Percent of the photos that should stay, which go."""
        return 100 * self.go_wrongly / max(1, self.photos - self.should_go)


@dataclass(frozen=True)
class Presences:
    """For each word of some photos' captions, which photos have it, and how strongly.

    Attributes:
        truth: word → [photos] by their captions.
        impacts: word → [pieces, photos].
        largest: word → [pieces] the largest impact of any image of the index.
    """

    truth: dict[str, Flags]
    impacts: dict[str, NDArray[np.int64]]
    largest: dict[str, list[int]]

    def rows(self, share: float) -> list[BandRow]:
        """One row a band."""
        return [self._row(band, share) for band in BANDS]

    def _row(self, band: Band, share: float) -> BandRow:
        words = [word for word, flags in self.truth.items() if band_of(flags) is band]
        shape = len(words), len(next(iter(self.truth.values())))
        truth = np.array([self.truth[word] for word in words], np.bool_).reshape(shape)
        gone = np.array([self._gone(word, share) for word in words], np.bool_).reshape(shape)
        right = (gone & truth).sum(axis=1)
        f1 = 2 * right / np.maximum(1, gone.sum(axis=1) + truth.sum(axis=1))
        return BandRow(
            band.name,
            len(words),
            int(truth.sum()),
            int(right.sum()),
            int((gone & ~truth).sum()),
            truth.size,
            float(f1.mean()) if words else 0.0,
        )

    def _gone(self, word: str, share: float) -> Flags:
        least = [least_impact(largest, share) for largest in self.largest[word]]
        enough = self.impacts[word] >= np.array(least).reshape(-1, 1)
        if not least:
            return np.zeros(enough.shape[1], np.bool_)
        return np.asarray(enough.all(axis=0), np.bool_)


def mean_f1(rows: Sequence[BandRow]) -> float:
    """The mean over the bands that have words, so that each counts the same."""
    return float(np.mean([row.f1 for row in rows if row.words]))


def read_presences(
    searcher: LuceneSearcher,
    photos: Sequence[CaptionedPhoto],
    progress: Progress = no_progress,
) -> Presences:
    """Read the impacts of all words of photos' captions.

    Args:
        searcher: of an index with the photos, and perhaps others.
        photos: with captions.
        progress: of the stage "words".

    Raises:
        InputError: if the index lacks a photo.
    """
    documents = documents_of(searcher, photos)
    truth = photos_by_word(photos)
    impacts, largest = {}, {}
    for done, word in enumerate(truth, 1):
        pieces = spoken_pieces(searcher.tokenizer, word)
        found = [searcher.index.term_impacts(piece)[documents] for piece in pieces]
        impacts[word] = np.array(found, np.int64).reshape(len(pieces), len(photos))
        largest[word] = [searcher.index.largest_impact(piece) for piece in pieces]
        progress("words", done, len(truth))
    return Presences(truth, impacts, largest)


def documents_of(searcher: LuceneSearcher, photos: Sequence[CaptionedPhoto]) -> NDArray[np.int64]:
    """[photos] the number of each in the index.

    Raises:
        InputError: if the index lacks one.
    """
    found = [searcher.index.document(photo.image_id) for photo in photos]
    if None in found:
        missing = photos[found.index(None)].image_id
        raise InputError(f"the index has no image {missing!r}: index all photos of the split")
    return np.array(found, np.int64)
