"""Which images have a word: what the signs of a query and coverage are decided by."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cache, lru_cache, partial
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from indexer.search.api import Allowed, Condition
from indexer.search.terms.query_reader import ReadWord

# Share of the term's largest impact in the index with which an image has a term: one that needs no
# adjusting to a model; see docs/results/constants.md.
PRESENT = 0.45
ROUNDING = 1e-9  # of shares that add up to 1
CACHED_BYTES = 2**26  # of bitmaps, one a term; of a million images 64 terms


class TermImpacts(Protocol):
    """Reads one term's impacts of all images."""

    def largest_impact(self, term: str) -> int:
        """The largest, 0 if no image has the term."""
        ...

    def term_impacts(self, term: str) -> NDArray[Any]:
        """[N], 0 for images without the term."""
        ...


class Presence:
    """Decides which images have a word: those with a large enough impact for each of its terms.

    Attributes:
        largest: the largest impact of any image for a term.

    Args:
        finder: of the index.
        documents: N, the numbers that documents may have.
    """

    largest: Callable[[str], int]

    def __init__(self, finder: TermImpacts, documents: int) -> None:
        self._documents = documents
        self.largest = cache(finder.largest_impact)  # of at most the vocabulary
        most = max(8, CACHED_BYTES // max(1, documents))
        self._bitmap = lru_cache(most)(partial(_bitmap, finder))

    def having(self, terms: Sequence[str]) -> Allowed:
        """[N] whether each image has a word of some terms; none has a word without terms."""
        if not terms:
            return np.zeros(self._documents, np.bool_)
        bitmaps = [self._bitmap(term, least_impact(self.largest(term))) for term in terms]
        found: Allowed = np.logical_and.reduce(bitmaps)
        return found

    def among(self, largest: Mapping[str, int]) -> Self:
        """The same for an index that is a part of a larger one.

        Args:
            largest: impacts of any image of the whole, of all terms that are asked for.
        """
        part = copy(self)
        part.largest = largest.__getitem__
        return part

    def apply(
        self, signed: Sequence[ReadWord], allowed: Allowed | None
    ) -> tuple[Allowed | None, list[Condition]]:
        """The images that have what they must and lack what they must not.

        Args:
            signed: words with signs.
            allowed: [N] images among which to choose; None for all.
        """
        conditions = []
        for word in signed:
            having = self.having(word.terms)
            conditions.append(Condition(word.text, word.sign, int(np.count_nonzero(having))))
            right = having if word.sign == "+" else ~having
            allowed = right if allowed is None else allowed & right
        return allowed, conditions

    def had(
        self, words: Sequence[ReadWord], terms: Sequence[str], impacts: NDArray[np.integer]
    ) -> NDArray[np.bool_]:
        """Whether some images have some words, [words, images].

        Args:
            words: of a query.
            terms: [m] of the words.
            impacts: [images, m].
        """
        enough = impacts >= np.array([least_impact(self.largest(term)) for term in terms])
        places = {term: place for place, term in enumerate(terms)}
        had = np.zeros((len(words), len(impacts)), np.bool_)
        for row, word in enumerate(words):
            if word.terms:
                had[row] = enough[:, [places[term] for term in word.terms]].all(axis=1)
        return had

    def coverages(self, words: Sequence[ReadWord], had: NDArray[np.bool_]) -> list[float]:
        """The share, 0 to 1, of a query's weight that each of some images has.

        A word's weight is its count times the largest sum of impacts that its terms could have;
        that of an unknown word is the mean of the others. So words that say little about photos,
        as "on", weigh little, and a word that no image has is not forgotten.

        Args:
            words: of the query.
            had: [words, images].
        """
        # Word by word: a product of matrices rounds by their shapes, which differ among shards.
        shares = np.zeros(had.shape[1])
        for weight, own in zip(self._weights(words), had, strict=True):
            shares += weight * own
        found: list[float] = shares.tolist()
        return found

    def covering(self, words: Sequence[ReadWord], least: float, allowed: Allowed | None) -> Allowed:
        """[N] the images with at least some coverage.

        Args:
            words: of the query.
            least: the share, 0 to 1.
            allowed: [N] images among which to choose; None for all.
        """
        shares = np.zeros(self._documents)
        for word, weight in zip(words, self._weights(words), strict=True):
            if weight:
                shares += weight * self.having(word.terms)
        found = shares >= least - ROUNDING
        return found if allowed is None else allowed & found

    def _weights(self, words: Sequence[ReadWord]) -> NDArray[np.float64]:
        """The share of each word in the weight of a query; all 0 for a query of unknown words."""
        largest = np.array([sum(map(self.largest, word.terms)) for word in words], np.float64)
        counts = np.array([word.times for word in words], np.float64)
        known = (largest > 0) & (counts > 0)
        if not known.any():
            return np.zeros(len(words))
        weights = counts * np.where(known, largest, largest[known].mean())
        shares: NDArray[np.float64] = weights / weights.sum()
        return shares


def words_against(words: Sequence[ReadWord], had: NDArray[np.bool_]) -> list[list[str]]:
    """For some images, the words with signs for which each is left out.

    Args:
        words: of the query.
        had: [words, images].
    """
    signed = [
        (word.sign + word.text, own == (word.sign == "-"))
        for word, own in zip(words, had, strict=True)
        if word.sign
    ]
    return [[text for text, out in signed if out[image]] for image in range(had.shape[1])]


def least_impact(largest: int, present: float = PRESENT) -> int:
    """The smallest impact with which an image has a term.

    Args:
        largest: impact of any image for the term.
        present: the share of it that is enough.
    """
    return max(1, math.ceil(present * largest))


def _bitmap(finder: TermImpacts, term: str, least: int) -> Allowed:
    found: Allowed = finder.term_impacts(term) >= least
    return found
