"""Reading queries: their terms, the words that the index lacks, and substitutes for those."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from indexer.search.api import Substitution
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import Tokenizer, Word

PART_CACHE = 50_000  # parts of queries, mostly words, that are cached


class ReadQuery(NamedTuple):
    """A query as an engine takes it.

    Attributes:
        terms: separated by spaces; a term twice counts twice.
        unknown: words without postings for which there is no substitute, each once.
        substitutions: words without postings with the terms in their place, each once.
    """

    terms: str
    unknown: list[str]
    substitutions: list[Substitution]


class ReadWord(NamedTuple):
    """A word of a query.

    Attributes:
        text: as typed.
        terms: its word pieces, or its substitute.
        known: whether one of its word pieces has postings.
        substitution: where a substitute was taken.
    """

    text: str
    terms: tuple[str, ...]
    known: bool
    substitution: Substitution | None


class _Part(NamedTuple):
    """The terms of the text between two spaces of a query, and its words without postings."""

    terms: str
    lacking: list[ReadWord]


class QueryReader:
    """Tokenises queries and replaces words without postings.

    Args:
        tokenizer: of the index.
        table: of substitutes.
        document_frequency: in how many images a term has an impact.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        table: SubstituteTable,
        document_frequency: Callable[[str], int],
    ) -> None:
        self._tokenizer = tokenizer
        self._table = table
        self._frequency = document_frequency
        self._caches: dict[bool, dict[str, _Part]] = {False: {}, True: {}}

    def read(self, query: str, substitute: bool) -> ReadQuery:
        """Read a query part by part; parts are cached.

        Args:
            query: any text.
            substitute: whether words without postings are replaced.
        """
        cache = self._caches[substitute]
        parts = [
            cache.get(part) or self._part(part, substitute) for part in self._tokenizer.parts(query)
        ]
        terms = " ".join([part.terms for part in parts])
        lacking = [word for part in parts for word in part.lacking]
        if not lacking:
            return ReadQuery(terms, [], [])
        unknown = dict.fromkeys(word.text for word in lacking if word.substitution is None)
        found = dict.fromkeys(word.substitution for word in lacking if word.substitution)
        return ReadQuery(terms, list(unknown), list(found))

    def words(self, query: str, substitute: bool) -> list[ReadWord]:
        """The words of a query, in order."""
        return [self._word(word, substitute) for word in self._tokenizer.encode_query(query).words]

    def _part(self, text: str, substitute: bool) -> _Part:
        """Read a part and cache it; a full cache is emptied, as tracking use costs more."""
        words = self.words(text, substitute)
        cache = self._caches[substitute]
        if len(cache) >= PART_CACHE:
            cache.clear()
        terms = " ".join([term for word in words for term in word.terms])
        part = cache[text] = _Part(terms, [word for word in words if not word.known])
        return part

    def _word(self, word: Word, substitute: bool) -> ReadWord:
        known = any(self._frequency(piece) for piece in word.pieces)
        found = self._substitution(word) if substitute and not known else None
        return ReadWord(word.text, (found.term,) if found else word.pieces, known, found)

    def _substitution(self, word: Word) -> Substitution | None:
        """The best substitute with postings in this index."""
        for term, similarity in self._table.words.get("".join(word.pieces), ()):
            if self._frequency(term):
                return Substitution(word.text, term, similarity)
        return None
