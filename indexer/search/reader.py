"""Queries → plans, with the statistics of an index: texts, and queries by image."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.answer import Sign, Substitution, Version
from indexer.query import OPERATORS, Clause, Query, QueryError
from indexer.search.engine import Capability, Engine, Fact, Needs, Plan, Statistics
from indexer.search.words import FUNCTION_WORDS, HeldWords, WordList
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import WordTables

if TYPE_CHECKING:
    from indexer.fields.kinds import Kind
    from indexer.filters.expression import Filter
    from indexer.search.rerank import Reranker

# Share of the term's largest impact in the index with which an image has a term: one that needs no
# adjusting to a model; see docs/results/recall.md.
PRESENT = 0.45
CACHED = 50_000  # parts of queries, mostly words
LARGEST_SCORE = 2**24  # Lucene adds floats, whose whole numbers are exact below this
TERMS = 10  # of a query by image; see docs/results/recall.md
# Counts of a query by image add up to at most this: scores stay below the largest, even for
# impacts of 16 bits.
COUNTS = 256


class ReadWord(NamedTuple):
    """A word of a query.

    Attributes:
        text: as typed.
        terms: vocabulary ids of its word pieces, or of its substitute.
        known: whether an image has one of its word pieces, and it was not replaced.
        rare: whether training rarely saw one of its terms; False for an unknown word.
        substitution: where a substitute was taken.
        sign: see `OPERATORS`.
        times: how often the query contains it; 0 for a word that does not count.
    """

    text: str
    terms: tuple[int, ...]
    known: bool
    rare: bool
    substitution: Substitution | None
    sign: Sign = ""
    times: int = 1


class Reading(NamedTuple):
    """The words of a query that an answer is to name.

    Attributes:
        notable: words that an answer names: no image has them, or training rarely saw them.
        signed: words with a sign.
    """

    notable: list[ReadWord]
    signed: list[ReadWord]

    @property
    def unknown(self) -> list[str]:
        """Words that no image has and no substitute replaced, each once."""
        found = (one.text for one in self.notable if not (one.known or one.substitution))
        return list(dict.fromkeys(found))

    @property
    def rare(self) -> list[str]:
        """Words that are searched and that training rarely saw, each once."""
        found = (one.text for one in self.notable if one.rare and one.times)
        return list(dict.fromkeys(found))

    @property
    def substitutions(self) -> list[Substitution]:
        """Words that no image has, with the terms in their place, each once."""
        found = (one.substitution for one in self.notable if one.substitution)
        return list(dict.fromkeys(found))


NOTHING = Reading([], [])  # of a query with no such words


class _TextPart(NamedTuple):
    """The text between two spaces of a query: its terms, and the words that an answer names."""

    terms: tuple[int, ...]
    notable: list[ReadWord]


class MovedError(Exception):
    """The index has another version than the search began with."""


class Language:
    """Tokenizer and tables of words, which all versions and shards of an index share.

    Attributes:
        tokenizer: of the index.
        tables: of words.
        bits: of an impact.
        reranker: of hits; None if the index has no vectors of photos.
    """

    def __init__(
        self,
        tokenizer: TermTokenizer,
        tables: WordTables,
        bits: int,
        reranker: Reranker | None = None,
    ) -> None:
        self.tokenizer, self.tables, self.bits, self.reranker = tokenizer, tables, bits, reranker
        self._parts: dict[str, list[tuple[str, tuple[int, ...]]]] = {}

    @cached_property
    def words(self) -> WordList:
        """The whole words of the vocabulary, and frequent words of several pieces."""
        spelling = self.tables.spelling
        frequent = () if spelling is None else filter(self.pieces, spelling.frequent)
        words = dict.fromkeys([*self.tokenizer.vocabulary, *frequent])
        return WordList(words, self.tokenizer.fold)

    @cached_property
    def word_ids(self) -> NDArray[np.int64]:
        """[W, P] the vocabulary ids of the pieces of those words, the last one repeated."""
        rows = [self.pieces(word) for word in self.words.words]
        most = max(map(len, rows), default=1)
        padded = [row + row[-1:] * (most - len(row)) for row in rows]
        return np.array(padded, np.int64).reshape(len(rows), most)

    def pieces(self, word: str) -> tuple[int, ...]:
        """The vocabulary ids of a word's pieces."""
        known = self.tokenizer.ids.get(word)
        return self.as_one_word(word) if known is None else (known,)

    def misspelt(self, text: str, pieces: tuple[int, ...]) -> str | None:
        """A word as it is spelled, if the tables have the spelling of words and not this one."""
        spelling = self.tables.spelling
        if spelling is None or not text.isalpha() or text.lower() in FUNCTION_WORDS:
            return None
        terms = (self.tokenizer.vocabulary[piece] for piece in pieces)
        word = self.tokenizer.written(text, terms)
        return None if word in spelling.correct or word in self.tokenizer.ids else word

    @cached_property
    def rare(self) -> frozenset[int]:
        """Vocabulary ids of terms that training rarely saw."""
        ids = self.tokenizer.ids
        return frozenset(ids[term] for term in self.tables.rare if term in ids)

    def words_of(self, part: str) -> list[tuple[str, tuple[int, ...]]]:
        """As `split`, cached."""
        found = self._parts.get(part)
        if found is None:
            if len(self._parts) >= CACHED:
                self._parts.clear()  # keeping track of use costs more
            found = self._parts[part] = self.split(part)
        return found

    def split(self, text: str) -> list[tuple[str, tuple[int, ...]]]:
        """The words of a text, with the ids of their pieces."""
        ids, words = self.tokenizer.ids, self.tokenizer.encode_query(text).words
        return [(word.text, tuple(ids[piece] for piece in word.pieces)) for word in words]

    def as_one_word(self, text: str) -> tuple[int, ...]:
        """The pieces of a text with a letter or a digit; all of them if none has one."""
        pieces = [piece for _, own in self.split(text) for piece in own]
        terms = self.tokenizer.vocabulary
        return tuple(one for one in pieces if any(map(str.isalnum, terms[one]))) or tuple(pieces)


class _OfTerms:
    """A fact of each term in one version of an index, asked for once."""

    def __init__(self, engine: Engine, version: Version, fact: Fact) -> None:
        self._engine, self._version, self._fact = engine, version, fact
        self._known: dict[int, int] = {}

    def __call__(self, terms: Sequence[int]) -> list[int]:
        """The fact of some terms; raises MovedError."""
        if unknown := [term for term in terms if term not in self._known]:
            found = self._engine.statistics(unknown, self._fact)
            _check(self._version, found.version)
            self._known.update(zip(unknown, getattr(found, self._fact).tolist(), strict=True))
        return [self._known[term] for term in terms]


def _check(version: Version, found: Version) -> None:
    """Raise `MovedError` unless all shards that answered did so from a version."""
    if found is not version and not {*found.commits} <= {*version.commits}:
        raise MovedError


class Reader:
    """Reads queries with the statistics of one version of an index. Safe from any thread.

    Attributes:
        version: the index's.
        images: how many there are.
        missing_images: images that the engine cannot find.
        largest: the largest impact of any image for each of some terms, 0 for none; raises
            MovedError.
    """

    def __init__(self, language: Language, engine: Engine, statistics: Statistics) -> None:
        self.version = statistics.version
        self.images, self.missing_images = statistics.images, statistics.missing_images
        self._language, self._engine = language, engine
        self._most_counts = LARGEST_SCORE // 2**language.bits
        self.largest = _OfTerms(engine, statistics.version, "largest")
        self._parts: dict[bool, dict[str, _TextPart]] = {False: {}, True: {}}

    def check(self, version: Version) -> None:
        """Raise `MovedError` unless all shards that answered did so from this version."""
        _check(self.version, version)

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of all fields; raises MovedError."""
        found = self._engine.statistics((), "kinds")
        self.check(found.version)
        assert found.kinds is not None
        return found.kinds

    @cached_property
    def held_words(self) -> HeldWords:
        """The words that images have; raises MovedError."""
        found, pieces = self._engine.statistics((), "bounds"), self._language.word_ids
        self.check(found.version)
        assert found.bounds is not None

        def exact(of_terms: _OfTerms, places: NDArray[np.int64]) -> NDArray[np.int64]:
            own = pieces[places]
            found = np.array(of_terms(own.ravel().tolist()), np.int64)
            least: NDArray[np.int64] = found.reshape(own.shape).min(axis=-1)
            return least

        frequencies = _OfTerms(self._engine, self.version, "frequencies")
        numbers = partial(exact, frequencies), partial(exact, self.largest)
        return HeldWords(self._language.words, found.bounds[:, pieces].min(axis=-1), *numbers)

    def plan(
        self,
        query: Query,
        substitute: bool,
        filter: Filter | None = None,
        min_coverage: float | None = None,
        browsed: bool = False,
    ) -> tuple[Plan, Reading]:
        """What an engine is asked for a query, and the query as it was read.

        Without words all images match. `min_coverage` is of the images that may be found, None for
        any; `browsed` is whether the fields of all that match are wanted. Raises as `read`.
        """
        if Capability.REQUIRE not in self._engine.can:
            kinds = None if filter is None else self.kinds
            return Plan({}, text=query.text, filter=filter, kinds=kinds), NOTHING
        counts, reading = self.read(query, substitute)
        plan = Plan(counts)
        if filter is not None or browsed:
            everything = not query.text.strip()
            plan = plan._replace(filter=filter, kinds=self.kinds, everything=everything)
        if reading.signed:
            plan = plan._replace(signed=tuple(self.needs(reading.signed)))
        if min_coverage:
            weighed = self.needs(self.words(query, substitute), weighed=True)
            plan = plan._replace(weighed=tuple(weighed), min_coverage=min_coverage)
        return plan, reading

    def read(self, query: Query, substitute: bool) -> tuple[dict[int, int], Reading]:
        """Vocabulary id → count, and the notable words; the parts of plain text are cached.

        Words that no image has are replaced, if wanted, as far as they count. Raises QueryError if
        words and weights add up to inexact scores, MovedError if the index has changed.
        """
        counts: dict[int, int] = {}
        notable: list[ReadWord] = []
        signed: list[ReadWord] = []
        parts = self._parts[substitute]
        for clause in query.clauses:
            if clause.word:
                word = self._clause_word(clause, substitute)
                for term in word.terms if word.times else ():
                    counts[term] = counts.get(term, 0) + word.times
                notable += [word] if word.rare or not word.known else []
                signed += [word] if word.sign else []
                continue
            for text in self._language.tokenizer.parts(clause.text):
                part = parts.get(text) or self._part(text, substitute)
                for term in part.terms:
                    counts[term] = counts.get(term, 0) + 1
                if part.notable:
                    notable += part.notable
        if sum(counts.values()) > self._most_counts:
            column = next((one.column for one in query.clauses if one.weight > 1), 1)
            problem = f"words and weights add up to more than {self._most_counts}: use fewer"
            raise QueryError(problem, query.text, column)
        return counts, Reading(notable, signed) if notable or signed else NOTHING

    def words(self, query: Query, substitute: bool) -> list[ReadWord]:
        """The words of a query, in order."""
        found = []
        for clause in query.clauses:
            if clause.word:
                found.append(self._clause_word(clause, substitute))
            else:
                split = self._language.split(clause.text)
                self.largest([piece for _, pieces in split for piece in pieces])  # all at once
                found += self._spoken(split, substitute)
        return found

    def _spoken(
        self, split: Iterable[tuple[str, tuple[int, ...]]], substitute: bool
    ) -> list[ReadWord]:
        """Words of plain text, but for function words that no image has."""
        words = (self._word(*word, substitute) for word in split)
        return [one for one in words if one.known or one.text.lower() not in FUNCTION_WORDS]

    def _clause_word(self, clause: Clause, substitute: bool) -> ReadWord:
        counts = OPERATORS[clause.sign].counts
        pieces = self._language.as_one_word(clause.text)
        word = self._word(clause.text, pieces, substitute, counts)
        return word._replace(sign=clause.sign, times=clause.weight if counts else 0)

    def _part(self, text: str, substitute: bool) -> _TextPart:
        words = self._spoken(self._language.words_of(text), substitute)
        cache = self._parts[substitute]
        if len(cache) >= CACHED:
            cache.clear()
        terms = tuple(term for word in words for term in word.terms)
        part = cache[text] = _TextPart(terms, [one for one in words if one.rare or not one.known])
        return part

    def _word(
        self, text: str, pieces: tuple[int, ...], substitute: bool, counts: bool = True
    ) -> ReadWord:
        known = any(self.largest(pieces))
        found = self._substitution(text, pieces, known or not counts) if substitute else None
        terms = self._language.pieces(found.term) if found else pieces
        rare = (known or found is not None) and not self._language.rare.isdisjoint(terms)
        rare = rare and text.lower() not in FUNCTION_WORDS
        return ReadWord(text, terms, known and found is None, rare, found)

    def _substitution(
        self, text: str, pieces: tuple[int, ...], spelling_alone: bool
    ) -> Substitution | None:
        """The word that a misspelt one stands for, else the best substitute that an image has."""
        misspelt = self._language.misspelt(text, pieces)
        if misspelt and (meant := self.held_words.corrected(misspelt)):
            return Substitution(text, meant, None)
        if spelling_alone:
            return None
        tokenizer = self._language.tokenizer
        word = "".join(tokenizer.vocabulary[piece] for piece in pieces)
        near = self._language.tables.substitutes.get(word, ())
        candidates = [one for one in near if one.term in tokenizer.ids]
        largest = self.largest([tokenizer.ids[one.term] for one in candidates])
        for one, impact in zip(candidates, largest, strict=True):
            if impact:
                return Substitution(text, one.term, one.similarity)
        return None

    def needs(self, words: Sequence[ReadWord], weighed: bool = False) -> list[Needs]:
        """Words as engines test them, with their weights if all words of a query are given.

        A word's weight is its count times the largest sum of impacts that its terms could have; an
        unknown word has the mean weight of the others. So words that say little about photos, such
        as "on", weigh little, and a word that no image has is not forgotten.
        """
        found, sums = [], []
        for word in words:
            largest = self.largest(word.terms)
            least = tuple(zip(word.terms, map(_least_impact, largest), strict=True))
            found.append(Needs(least, OPERATORS[word.sign].required))
            sums.append(sum(largest))
        if not weighed:
            return found
        largest_sums = np.array(sums, np.float64)
        counts = np.array([word.times for word in words], np.float64)
        known = (largest_sums > 0) & (counts > 0)
        if not known.any():
            return found
        weights = counts * np.where(known, largest_sums, largest_sums[known].mean())
        shares: list[float] = (weights / weights.sum()).tolist()
        return [one._replace(weight=share) for one, share in zip(found, shares, strict=True)]


def _least_impact(largest: int) -> int:
    """The smallest impact with which an image has a term, from the largest of any image."""
    return max(1, math.ceil(PRESENT * largest))


def had(
    needs: Sequence[Needs], terms: Sequence[int], impacts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """[words, d] whether d images have some words.

    Args:
        needs: of the words.
        terms: [m] vocabulary ids, which include those of the words.
        impacts: [d, m] of the images.
    """
    places = {term: place for place, term in enumerate(terms)}
    found = np.zeros((len(needs), len(impacts)), np.bool_)
    for row, one in enumerate(needs):
        if one.least:
            own = impacts[:, [places[term] for term, _ in one.least]]
            found[row] = (own >= np.array([least for _, least in one.least])).all(axis=1)
    return found


def coverages(needs: Sequence[Needs], own: Iterable[NDArray[np.bool_]], images: int) -> list[float]:
    """The share, 0 to 1, of a query's weight that each of some images has.

    Args:
        needs: of the words of the query, weighed.
        own: [words, d] whether images have the words.
        images: d.
    """
    # Word by word: a product of matrices rounds by their shapes, which differ among shards.
    shares = np.zeros(images)
    for one, having in zip(needs, own, strict=True):
        shares += one.weight * having
    found: list[float] = np.minimum(shares, 1.0).tolist()  # rounding may exceed 1
    return found


def image_query(
    impacts: Mapping[int, int], words: Mapping[int, int] | None = None
) -> dict[int, int]:
    """The query for images similar to some, and to words as well; both have half of the weight.

    `impacts` are of all terms of the images, added, in any fixed order, which breaks ties. The
    query has the ten largest, and the words' terms, in proportion, the largest count first.
    """
    strongest = sorted(impacts, key=lambda term: -impacts[term])[:TERMS]
    shared = COUNTS // 2 if words else COUNTS
    query = Counter(_shares({term: impacts[term] for term in strongest}, shared))
    if not words:
        return dict(query)
    query.update(_shares(words, shared))
    return dict(query.most_common())


def _shares(weights: Mapping[int, int], counts: int) -> dict[int, int]:
    total = sum(weights.values())
    shares = {term: weight * counts // total for term, weight in weights.items()}
    return {term: share for term, share in shares.items() if share}
