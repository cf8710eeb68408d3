"""Reading queries: their terms, the words that the index lacks, and substitutes for those."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from indexer.search.api import Substitution
from sparta.substitutes import SubstituteTable
from sparta.tokenizer import Tokenizer, Word

PART_CACHE = 50_000  # parts of queries, mostly words, that are cached


class ReadQuery(NamedTuple):
    """A query, or a part of one, as an engine takes it.

    Attributes:
        terms: separated by spaces; a term twice counts twice.
        unknown: words without postings for which there is no substitute.
        substitutions: words without postings, with the terms in their place.
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
        self._caches: dict[bool, dict[str, ReadQuery]] = {False: {}, True: {}}

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
        return ReadQuery(
            " ".join([part.terms for part in parts]),
            list(dict.fromkeys([word for part in parts for word in part.unknown])),
            list(dict.fromkeys([word for part in parts for word in part.substitutions])),
        )

    def words(self, query: str, substitute: bool) -> list[ReadWord]:
        """The words of a query, in order."""
        return [self._word(word, substitute) for word in self._tokenizer.encode_query(query).words]

    def _part(self, text: str, substitute: bool) -> ReadQuery:
        """Read a part and cache it; a full cache is emptied, as tracking use costs more."""
        words = self.words(text, substitute)
        cache = self._caches[substitute]
        if len(cache) >= PART_CACHE:
            cache.clear()
        part = cache[text] = ReadQuery(
            " ".join([term for word in words for term in word.terms]),
            [word.text for word in words if not word.known and word.substitution is None],
            [word.substitution for word in words if word.substitution is not None],
        )
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
