"""Reading queries: their terms, words that the index lacks or training rarely saw, substitutes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import NamedTuple, Protocol

from indexer.query.query import Clause, Query, QueryError, Sign
from indexer.search.api import Substitution
from sparta.tokenizer import Word, WordPieceTokenizer
from sparta.word_tables import WordTables

PART_CACHE = 50_000  # parts of queries, mostly words, that are cached
# Lucene adds floats, whose whole numbers are exact below this.
LARGEST_SCORE = 2**24


class ReadWord(NamedTuple):
    """A word of a query.

    Attributes:
        text: as typed.
        terms: its word pieces, or its substitute.
        known: whether one of its word pieces has postings.
        rare: whether training rarely saw one of its terms; False for an unknown word.
        substitution: where a substitute was taken.
        sign: "+" for a word that an image must have, "-" for one that it must not have.
        times: how often the query contains it; 0 for an excluded word.
    """

    text: str
    terms: tuple[str, ...]
    known: bool
    rare: bool
    substitution: Substitution | None
    sign: Sign = ""
    times: int = 1

    @property
    def unknown(self) -> bool:
        """Whether it has neither postings nor a substitute."""
        return not self.known and self.substitution is None

    @property
    def notable(self) -> bool:
        """Whether an answer names it: it has no postings, or training rarely saw it."""
        return self.rare or not self.known


class ReadQuery(NamedTuple):
    """A query as an engine takes it.

    Attributes:
        terms: separated by spaces; a term twice counts twice.
        unknown: words without postings for which there is no substitute, each once.
        rare: words that are searched and that training rarely saw, each once.
        substitutions: words without postings with the terms in their place, each once.
        signed: the words that an image must or must not have.
    """

    terms: str
    unknown: list[str]
    rare: list[str]
    substitutions: list[Substitution]
    signed: list[ReadWord]


class Reader(Protocol):
    """Reads queries: a `QueryReader`, or what gives one that was read elsewhere."""

    def read(self, query: Query, substitute: bool) -> ReadQuery:
        """See `QueryReader.read`."""
        ...

    def words(self, query: Query, substitute: bool) -> list[ReadWord]:
        """See `QueryReader.words`."""
        ...


class _Part(NamedTuple):
    """The text between two spaces of a query: its terms, and its unknown or rare words."""

    terms: str
    notable: list[ReadWord]


class QueryReader:
    """Tokenises queries and replaces words without postings.

    Args:
        tokenizer: of the index.
        tables: of words.
        holds: whether some image has a term.
        largest_impact: of any index with its number of bits.
    """

    def __init__(
        self,
        tokenizer: WordPieceTokenizer,
        tables: WordTables,
        holds: Callable[[str], bool],
        largest_impact: int = 255,
    ) -> None:
        self._tokenizer = tokenizer
        self._tables = tables
        self._holds = holds
        self._most_counts = LARGEST_SCORE // (largest_impact + 1)
        self._caches: dict[bool, dict[str, _Part]] = {False: {}, True: {}}

    def with_held(self, holds: Callable[[str], bool]) -> QueryReader:
        """A reader for a later commit, which has the same of the terms that were looked up."""
        newer = copy(self)
        newer._holds = holds
        newer._caches = {key: own.copy() for key, own in self._caches.items()}
        return newer

    def read(self, query: Query, substitute: bool) -> ReadQuery:
        """Read a query; the parts of plain text are cached.

        Args:
            query: of any clauses.
            substitute: whether words without postings are replaced; excluded ones never are.

        Raises:
            QueryError: if its weights are so large that scores would not be exact.
        """
        terms: list[str] = []
        notable: list[ReadWord] = []
        signed: list[ReadWord] = []
        for clause in query.clauses:
            if clause.word:
                word = self._clause_word(clause, substitute)
                terms += word.terms * word.times
                notable += [word] if word.notable else []
                signed += [word] if word.sign else []
            else:
                for searched, noted in self._parts(clause.text, substitute):
                    terms.append(searched)
                    if noted:
                        notable += noted
        joined = " ".join(terms)
        self._check_weights(query, joined)
        if not notable:
            return ReadQuery(joined, [], [], [], signed)
        unknown = dict.fromkeys(word.text for word in notable if word.unknown)
        rare = dict.fromkeys(word.text for word in notable if word.rare and word.sign != "-")
        found = dict.fromkeys(word.substitution for word in notable if word.substitution)
        return ReadQuery(joined, list(unknown), list(rare), list(found), signed)

    def words(self, query: Query, substitute: bool) -> list[ReadWord]:
        """The words of a query, in order."""
        return [word for clause in query.clauses for word in self._clause_words(clause, substitute)]

    def _clause_words(self, clause: Clause, substitute: bool) -> Iterable[ReadWord]:
        if clause.word:
            return [self._clause_word(clause, substitute)]
        words = self._tokenizer.encode_query(clause.text).words
        return [self._word(word, substitute) for word in words]

    def _clause_word(self, clause: Clause, substitute: bool) -> ReadWord:
        """A clause as one word."""
        pieces = spoken_pieces(self._tokenizer, clause.text)
        excluded = clause.sign == "-"
        word = self._word(Word(clause.text, pieces), substitute and not excluded)
        return word._replace(sign=clause.sign, times=0 if excluded else clause.weight)

    def _check_weights(self, query: Query, terms: str) -> None:
        if len(terms) <= self._most_counts:  # letters, of which each term has one at least
            return
        weighted = next((clause for clause in query.clauses if clause.weight > 1), None)
        if weighted is not None and len(terms.split()) > self._most_counts:
            problem = f"the weights add up to more than {self._most_counts}: use smaller ones"
            raise QueryError(problem, query.text, weighted.column)

    def _parts(self, text: str, substitute: bool) -> Iterable[_Part]:
        cache = self._caches[substitute]
        return [
            cache.get(part) or self._part(part, substitute) for part in self._tokenizer.parts(text)
        ]

    def _part(self, text: str, substitute: bool) -> _Part:
        """Read a part and cache it; a full cache is emptied, as tracking use costs more."""
        words = [self._word(word, substitute) for word in self._tokenizer.encode_query(text).words]
        cache = self._caches[substitute]
        if len(cache) >= PART_CACHE:
            cache.clear()
        terms = " ".join([term for word in words for term in word.terms])
        part = cache[text] = _Part(terms, [word for word in words if word.notable])
        return part

    def _word(self, word: Word, substitute: bool) -> ReadWord:
        known = any(self._holds(piece) for piece in word.pieces)
        found = self._substitution(word) if substitute and not known else None
        terms = (found.term,) if found else word.pieces
        rare = (known or found is not None) and not self._tables.rare.isdisjoint(terms)
        return ReadWord(word.text, terms, known, rare, found)

    def _substitution(self, word: Word) -> Substitution | None:
        """The best substitute with postings in this index."""
        for term, similarity in self._tables.substitutes.get("".join(word.pieces), ()):
            if self._holds(term):
                return Substitution(word.text, term, similarity)
        return None


def spoken_pieces(tokenizer: WordPieceTokenizer, text: str) -> tuple[str, ...]:
    """The pieces of a text with a letter or a digit; all of them if none has one."""
    pieces = tokenizer.encode_query(text).pieces
    return tuple(piece for piece in pieces if any(map(str.isalnum, piece))) or tuple(pieces)
