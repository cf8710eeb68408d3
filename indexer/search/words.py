"""The words that an index holds: completions of a beginning, and corrections of a word."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

# Edits by the length of a word, as Lucene's and Elasticsearch's automatic fuzziness has them.
ONE_EDIT, TWO_EDITS = 3, 6
REMEMBERED = 4096  # words with their corrections
FAR = 10_000  # edits
_LAST_WORD = re.compile(r"[^\W\d_]+\Z")


class HeldWord(NamedTuple):
    """A word that the index holds.

    Attributes:
        word: as the index spells it.
        images: in how many images it has an impact, deleted ones among them until the engine has
            merged what holds them.
    """

    word: str
    images: int


class Completion(NamedTuple):
    """A query with its last word completed or corrected.

    Attributes:
        text: the whole query.
        word: its last word.
        images: see `HeldWord`.
    """

    text: str
    word: str
    images: int


class WordList:
    """The whole words of a vocabulary, sorted; word pieces of longer words are none.

    Attributes:
        words: [W].
        letters: [W, longest] uint32 code points, 0 after a word's end.
        lengths: [W] in letters.
        sets: [W] uint64, the letters of each as bits: an edit changes two of them at most.

    Args:
        vocabulary: all terms.
    """

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self.words = sorted(term for term in vocabulary if term.isalpha())
        self.letters = _letters(self.words)
        self.lengths = np.count_nonzero(self.letters, axis=1)
        bits = np.where(self.letters > 0, np.uint64(1) << (self.letters % 64).astype(np.uint64), 0)
        self.sets = np.bitwise_or.reduce(bits, axis=1, dtype=np.uint64)


class HeldWords:
    """The words of a list that some image has.

    `images` [W] are counts with those that were deleted lately; `holds` says whether some image
    that is not deleted has a word.
    """

    def __init__(
        self, known: WordList, images: NDArray[np.int64], holds: Callable[[str], bool]
    ) -> None:
        self._known, self._images, self._holds = known, images, holds
        self._corrected: dict[tuple[str, int], list[HeldWord]] = {}

    def complete(self, text: str, most: int) -> list[Completion]:
        """See `Searcher.complete`."""
        text = normalize("NFC", text)
        last = _LAST_WORD.search(text)
        if last is None:
            return []
        found = self._beginning_with(last[0].lower(), most) or self.correct(last[0], most)
        return [Completion(text[: last.start()] + held.word, *held) for held in found]

    def _beginning_with(self, beginning: str, most: int) -> list[HeldWord]:
        first = bisect_left(self._known.words, beginning)
        last = bisect_left(self._known.words, beginning + chr(0x10FFFF))
        places = first + np.argsort(-self._images[first:last], kind="stable")
        return self._first_held(places, most)

    def correct(self, word: str, most: int) -> list[HeldWord]:
        """See `Searcher.correct`.

        An edit inserts, removes or replaces a letter, or swaps two neighbours. Words of three
        letters and more may have one edit, of six and more two. What was found last is remembered:
        the same names are unknown again and again.
        """
        key = word.lower(), most
        found = self._corrected.get(key)
        if found is None:
            if len(self._corrected) >= REMEMBERED:
                self._corrected.clear()
            found = self._corrected[key] = self._nearest(*key)
        return found

    def _nearest(self, word: str, most: int) -> list[HeldWord]:
        allowed = (len(word) >= ONE_EDIT) + (len(word) >= TWO_EDITS)
        alike = np.bitwise_count(self._known.sets ^ np.uint64(_letter_set(word))) <= 2 * allowed
        near = np.abs(self._known.lengths - len(word)) <= allowed
        places = np.flatnonzero(near & alike & (self._images > 0))
        if not allowed or not len(places):
            return []
        typed = np.array([*map(ord, word)], np.uint32)
        edits = _edits(typed, self._known.letters[places], self._known.lengths[places], allowed)
        some = (edits > 0) & (edits <= allowed)
        places, edits = places[some], edits[some]
        return self._first_held(places[np.lexsort((-self._images[places], edits))], most)

    def _first_held(self, places: NDArray[np.int64], most: int) -> list[HeldWord]:
        """The first words at some places that an image has."""
        some = places[self._images[places] > 0].tolist()
        pairs = ((self._known.words[place], int(self._images[place])) for place in some)
        return list(islice((HeldWord(*pair) for pair in pairs if self._holds(pair[0])), most))


def _letter_set(word: str) -> int:
    return sum({1 << ord(letter) % 64 for letter in word})


def _letters(words: list[str]) -> NDArray[np.uint32]:
    """[words, longest] code points, 0 after a word's end."""
    texts = np.array(words, np.str_)
    return texts.view(np.uint32).reshape(len(words), texts.itemsize // 4)


def _edits(
    word: NDArray[np.uint32], letters: NDArray[np.uint32], lengths: NDArray[np.int64], most: int
) -> NDArray[np.int16]:
    """[words] the optimal string alignment distance of each word from one, if it is not above most.

    Row i of the usual tables, one for each word, has the distances of the first i letters of the
    word from the first j letters of the others; where i and j differ by more than `most`, the
    distance does, too. In NumPy, so that no search waits for a compiler.
    """
    count, longest = letters.shape
    theirs = np.ascontiguousarray(letters.T)
    tables = np.full((len(word) + 1, longest + 1, count), FAR, np.int16)
    for i in range(min(most, len(word), longest) + 1):
        tables[0, i] = tables[i, 0] = i
    for i in range(1, len(word) + 1):
        for j in range(max(1, i - most), min(longest, i + most) + 1):
            best = np.minimum(tables[i - 1, j], tables[i, j - 1]) + 1
            np.minimum(best, tables[i - 1, j - 1] + (theirs[j - 1] != word[i - 1]), out=best)
            if i > 1 and j > 1:
                swapped = (theirs[j - 1] == word[i - 2]) & (theirs[j - 2] == word[i - 1])
                best[swapped] = np.minimum(best[swapped], tables[i - 2, j - 2, swapped] + 1)
            tables[i, j] = best
    found: NDArray[np.int16] = tables[len(word), lengths, np.arange(count)]
    return found
