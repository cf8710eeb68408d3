"""The words that an index holds: completions of a beginning, and corrections of a word."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import NamedTuple
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

# Edits by the length of a word, as Lucene's and Elasticsearch's automatic fuzziness has them.
ONE_EDIT, TWO_EDITS = 3, 6
# A misspelt word is replaced by one of this length, by two edits only from the other on, or if its
# letters are the same: so correct words that nobody listed stay.
LEAST_LETTERS, SURE_OF_TWO = 4, 8
# A letter left out or swapped is likelier than one replaced by a certain letter, or added.
LIKELIER = 8
REMEMBERED = 4096  # words with their corrections
NEAREST = 3  # words that a misspelt one may stand for
FAR = 10_000  # edits
# Words without meaning for photos: not unknown if no image has them, nor rarely seen in training.
_FUNCTION_WORDS = """
a about again ain already also although always am an and any anyone anything are aren arent as at be
because been being below but by can cant could couldn couldnt d did didn didnt do does doesn doesnt
dont else enough ever every everyone everything for from further had hadn hadnt has hasn hasnt have
haven havent he hence her here hers herself him himself his how however i if im in into is isn isnt
it its itself ive just let ll m may maybe me might mightn mine more most much must mustn my myself
needn neither never no nobody none nor not nothing now of on once one oneself or ought our ours
ourselves own perhaps quite rather re really s shall shan she should shouldn shouldnt since so some
such t than that thats the their theirs them themselves then there therefore theres these they
theyre this those thus to too unless until us ve very via was wasn wasnt we were weren werent weve
what whatever whats when whenever where whereas whereby wherever whether which whichever while who
whoever whom whose why will with wont would wouldn wouldnt yet you your youre yours yourself
yourselves
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
Places = NDArray[np.int64]  # [n] of words in a list
_LAST_WORD = re.compile(r"[^\W\d_]+\Z")


class HeldWord(NamedTuple):
    """A word that the index holds.

    Attributes:
        word: as the index spells it.
        images: in how many images it has an impact.
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
    """Words, sorted, that completions and corrections are taken from.

    Attributes:
        words: [W].
        letters: [W, longest] uint32 code points, 0 after a word's end.
        lengths: [W] in letters.
        sets: [W] uint64, the letters of each as bits: an edit changes two of them at most.
        fold: a typed word as the words are spelled.

    Args:
        words: each once; those with other characters than letters, such as word pieces, are none.
    """

    def __init__(self, words: Iterable[str], fold: Callable[[str], str] = str.lower) -> None:
        self.fold = fold
        self.words = sorted(word for word in words if word.isalpha())
        self.letters = _letters(self.words)
        self.lengths = np.count_nonzero(self.letters, axis=1)
        bits = np.where(self.letters > 0, np.uint64(1) << (self.letters % 64).astype(np.uint64), 0)
        self.sets = np.bitwise_or.reduce(bits, axis=1, dtype=np.uint64)


class HeldWords:
    """The words of a list that some image has.

    `bounds` [2, W] are at least in how many images each word is, and its largest impact. They
    depend on when deleted images are merged away. What is chosen depends on exact numbers alone,
    which `images_of` and `strongest_of` return of the words at some places.
    """

    def __init__(
        self,
        known: WordList,
        bounds: NDArray[np.int64],
        images_of: Callable[[Places], NDArray[np.int64]],
        strongest_of: Callable[[Places], NDArray[np.int64]],
    ) -> None:
        self._known, self._bounds = known, bounds
        self._images_of, self._strongest_of = images_of, strongest_of
        self._nearest: dict[tuple[str, int], list[HeldWord]] = {}
        self._held = np.flatnonzero(bounds[0] > 0)
        self._sets, self._lengths = known.sets[self._held], known.lengths[self._held]

    def complete(self, text: str, most: int) -> list[Completion]:
        """See `Searcher.complete`."""
        text = normalize("NFC", text)
        last = _LAST_WORD.search(text)
        if last is None:
            return []
        found = self._beginning_with(self._known.fold(last[0]), most) or self.correct(last[0], most)
        return [Completion(text[: last.start()] + held.word, *held) for held in found]

    def _beginning_with(self, beginning: str, most: int) -> list[HeldWord]:
        first = bisect_left(self._known.words, beginning)
        last = bisect_left(self._known.words, beginning + chr(0x10FFFF))
        return self._best(np.arange(first, last), None, most)

    def correct(self, word: str, most: int) -> list[HeldWord]:
        """See `Searcher.correct`.

        An edit inserts, removes or replaces a letter, or swaps two neighbours. Words of three
        letters and more may have one edit, of six and more two if none has one. What was found last
        is remembered: the same names are unknown again and again.
        """
        word = self._known.fold(word)
        found = self._nearest.get((word, most))
        if found is None:
            if len(self._nearest) >= REMEMBERED:
                self._nearest.clear()
            found = self._nearest[word, most] = self._near(word, most)
        return found

    def corrected(self, word: str) -> str | None:
        """The word that was meant by a misspelt one; None unless that is likely enough."""
        for other, _ in self.correct(word, NEAREST):
            same = sorted(word) == sorted(other)
            if same and len(other) < LEAST_LETTERS:
                return None  # "hte" is no misspelt "hate"
            near = len(word) >= SURE_OF_TWO or _is_one_edit(word, other)
            if len(other) >= LEAST_LETTERS and (near or same):
                return other
        return None

    def _near(self, word: str, most: int) -> list[HeldWord]:
        """The nearest words, the likeliest first."""
        known, letters = self._known, sorted(word)
        alike = np.bitwise_count(self._sets ^ np.uint64(_letter_set(word)))
        apart = np.abs(self._lengths - len(word))
        for edits in range(1, 1 + (len(word) >= ONE_EDIT) + (len(word) >= TWO_EDITS)):
            places = self._held[np.flatnonzero((apart <= edits) & (alike <= 2 * edits))]
            if edits == 1:
                one = [_is_one_edit(word, known.words[place]) for place in places.tolist()]
                places = places[np.array(one, np.bool_)]
            elif len(places):
                typed = np.array([*map(ord, word)], np.uint32)
                far = _edits(typed, known.letters[places], known.lengths[places], edits)
                places = places[far == edits]
            others = [known.words[place] for place in places.tolist()]
            missed = [len(one) > len(word) or sorted(one) == letters for one in others]
            if found := self._best(places, np.where(missed, LIKELIER, 1), most):
                return found
        return []

    def _best(self, places: Places, likelier: Places | None, most: int) -> list[HeldWord]:
        """The words in most images × `likelier` [n], or × largest impact; those in none are not.

        Counts in the order of the bounds, until no other word can be one of these.
        """
        bounds = self._bounds[0, places] * (
            self._bounds[1, places] if likelier is None else likelier
        )
        order, counted = np.argsort(-bounds, kind="stable"), most
        while True:
            some = np.sort(order[:counted])  # ties are in the order of the words
            images = self._images_of(places[some])
            own = self._strongest_of(places[some]) if likelier is None else likelier[some]
            best = np.argsort(-images * own, kind="stable")[:most]
            best = best[images[best] > 0]
            least = int((images * own)[best[-1]]) if len(best) == most else 1
            needed = int(np.count_nonzero(bounds >= least))
            if needed <= counted:
                pairs = zip(places[some[best]].tolist(), images[best].tolist(), strict=True)
                return [HeldWord(self._known.words[place], count) for place, count in pairs]
            counted = min(needed, 2 * counted)


def _is_one_edit(word: str, other: str) -> bool:
    """Whether one edit makes a word of another one."""
    if len(word) > len(other):
        word, other = other, word
    for place, letter in enumerate(word):
        if letter != other[place]:
            break
    else:
        return len(other) == len(word) + 1
    if len(word) < len(other):
        return word[place:] == other[place + 1 :]
    swapped = other[place + 1 : place + 2] + other[place]
    rest = word[place + 2 :] == other[place + 2 :]
    return word[place + 1 :] == other[place + 1 :] or (rest and word[place : place + 2] == swapped)


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
