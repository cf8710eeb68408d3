"""Which photos have which words, by their captions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eval.recall.content_words import content_words
from sparta.captions.read import CaptionedPhoto

LEAST = 3  # photos, of a word that is measured
FIRST = 10  # photos, of a pair of words both together and the context alone

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Band:
    """Words by the share of photos that have them.

    Attributes:
        name: for tables.
        above: the share, in percent, that a word of the band reaches.
    """

    name: str
    above: float


BANDS = (Band("5 % and more", 5.0), Band("1 to 5 %", 1.0), Band("below 1 %", 0.0))


def photos_by_word(photos: Sequence[CaptionedPhoto]) -> dict[str, Flags]:
    """For each content word that captions of at least three photos have: [photos] which have it."""
    places = defaultdict[str, set[int]](set)
    for place, photo in enumerate(photos):
        for caption in photo.captions:
            for word in content_words(caption):
                places[word].add(place)
    found = {}
    for word, own in sorted(places.items()):
        if len(own) >= LEAST:
            flags = found[word] = np.zeros(len(photos), np.bool_)
            flags[list(own)] = True
    return found


def band_of(flags: Flags) -> Band:
    """The band of a word that some photos have."""
    share = 100 * np.count_nonzero(flags) / len(flags)
    return next(band for band in BANDS if share >= band.above)


def pairs_of(words: dict[str, Flags]) -> list[tuple[str, str]]:
    """Queries as people exclude: a word, and another one that photos with it often have too.

    For each word the one that most of its photos have as well, where at least ten photos have both
    and at least ten the first alone, so that excluding removes something and leaves something.
    """
    names = list(words)
    flags = np.array([words[name] for name in names], np.float32)
    both = (flags @ flags.T).astype(np.int64)  # [words, words] photos with both
    found = []
    for row, name in enumerate(names):
        alone = both[row, row] - both[row]
        counted = np.where((both[row] >= FIRST) & (alone >= FIRST), both[row], 0)
        if counted.any():
            found.append((name, names[int(counted.argmax())]))
    return found
