r"""Queries: their grammar, and what each operator means.

`OPERATORS` alone gives signs a meaning: grammar, readers, engines and explanations follow it. A
sentence without operators is searched as it is.

    query  = plain text and clauses, with white space between them
    clause = [sign] word [weight] | [sign] phrase [weight]
    sign   = "+" (an image must have the word) | "-" (it must not)
    weight = "^" and a whole number from 1 to 100
    phrase = '"' words '"', searched as one word of all their pieces

A sign counts only before a letter or a phrase, at the beginning or after white space; a weight only
after a word with a letter, or a phrase, at its end. Quotation marks without sign or weight are
plain text. A backslash before a sign, "^" or a quotation mark makes it plain.

A clause has the words alone; see `sparta/query_text.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from indexer.answer import Sign
from sparta.errors import InputError
from sparta.query_text import searched, unframed, words_of


class Operator(NamedTuple):
    """What a sign before a word asks for.

    Attributes:
        counts: whether the word adds to scores; then it may have a weight and a substitute.
        required: True if images must have the word, False if they must not, None if they may.
    """

    counts: bool
    required: bool | None


OPERATORS: Mapping[Sign, Operator] = {
    "": Operator(counts=True, required=None),
    "+": Operator(counts=True, required=True),
    "-": Operator(counts=False, required=False),
}
_SIGNS: Mapping[str, Sign] = {sign: sign for sign in OPERATORS}
_CHARACTERS = re.escape("".join(OPERATORS))  # of all signs, within brackets of a pattern
_SIGN = f"[{_CHARACTERS}]"
_LETTER = r"[^\W\d_]"
_QUOTE = '["“”]'
_WEIGHT = r"\^(?P<weight>[-+]?\d+(?:[.,]\d+)?)"
_END = r"(?=[.,;:!?)\]]*(?:\s|\Z))"
_SPACE = re.compile(r"\s+")
_PART = re.compile(r"\S+")
_PHRASE = re.compile(
    rf'(?P<sign>{_SIGN}?){_QUOTE}(?P<words>(?:\\.|[^"“”\\])*){_QUOTE}(?:{_WEIGHT})?{_END}',
    re.DOTALL,
)
_UNCLOSED = re.compile(rf"{_SIGN}(?={_QUOTE})")
# Not a sign: the first hyphen of "rock -n- roll".
_SIGNED = re.compile(
    rf"(?P<sign>{_SIGN})(?={_LETTER})(?!\S*-(?:\s|\Z))(?P<words>\S+?)(?:{_WEIGHT})?{_END}"
)
_WEIGHTED = re.compile(rf"(?P<sign>)(?P<words>(?=[^\s^]*{_LETTER})[^\s^]*\w){_WEIGHT}{_END}")
_ESCAPE = re.compile(rf"\A\\(?={_SIGN}{_LETTER}|{_SIGN}?{_QUOTE})|(?<=\w)\\(?=\^[-+]?\d)")
_ESCAPED_QUOTE = re.compile(r'\\(["“”\\])')
# One of these is in every text with an operator or an escape; most texts have none, and most of
# those none of the characters, which are looked for in a sixth of the time.
_MARKS = re.compile(rf'[{_CHARACTERS}^"“”]')
_SUSPECT = re.compile(rf"(?:\A|[\s\\])(?:{_SIGN}{_LETTER}|{_SIGN}?{_QUOTE})|\^[-+]?\d")


LARGEST_WEIGHT = 100
SHOWN = 60  # characters of a long query beside the place of an error


class Clause(NamedTuple):
    """A part of a query.

    Attributes:
        text: without operators and escapes.
        sign: see `OPERATORS`.
        weight: how often the text counts; 1 to 100.
        word: whether the text is one word, of all its pieces; else it is plain text.
        column: where the clause begins in the query, from 1.
    """

    text: str
    sign: Sign = ""
    weight: int = 1
    word: bool = False
    column: int = 1


class Query(NamedTuple):
    """A query.

    Attributes:
        text: as typed; without operators also without escapes.
        clauses: in the order of the text; of a text without operators its words.
    """

    text: str
    clauses: tuple[Clause, ...]

    @classmethod
    def plain(cls, text: str) -> Query:
        """A text in which nothing is an operator, such as the caption of a photo."""
        return cls(text, (Clause(searched(text)),))

    @property
    def operator(self) -> Clause | None:
        """The first clause with an operator, None for plain text."""
        return next((clause for clause in self.clauses if clause.word), None)


class QueryError(InputError):
    """The query cannot be read.

    Attributes:
        problem: what is wrong and what to write, in one line.
        column: of the character where it is, from 1.
    """

    def __init__(self, problem: str, text: str, column: int) -> None:
        self.problem, self.column = problem, column
        start = max(0, column - 1 - SHOWN // 2)
        shown = "".join(" " if char.isspace() else char for char in text[start : start + SHOWN])
        pointer = " " * (column - 1 - start) + "^"
        super().__init__(f"query, column {column}: {problem}\n  {shown}\n  {pointer}")


def parse(text: str) -> Query:
    """Read a query; raises QueryError if an operator cannot be read."""
    if _MARKS.search(text) is None or _SUSPECT.search(text) is None:
        return Query.plain(text)
    clauses: list[Clause] = []
    for column, token in _tokens(text):
        if isinstance(token, Clause):
            clauses.append(token)
        elif clauses and not clauses[-1].word:
            clauses[-1] = clauses[-1]._replace(text=clauses[-1].text + token)
        else:
            clauses.append(Clause(token, column=column))
    if not any(one.word for one in clauses):
        return Query.plain(clauses[0].text)
    first, *others = [one if one.word else one._replace(text=words_of(one.text)) for one in clauses]
    if not first.word:
        counted = any(OPERATORS[one.sign].counts for one in others)
        first = first._replace(text=unframed(first.text, counted))
    return Query(text, tuple(one for one in (first, *others) if one.text) or (clauses[0],))


def parsed(query: str | Query) -> Query:
    """The query, parsed if it is a text; see `parse`."""
    return parse(query) if isinstance(query, str) else query


def searchable(query: str | Query) -> Query:
    """The query, if it searches for something.

    Raises:
        QueryError: as `parse`, and if the query only excludes.
    """
    query = parsed(query)
    if query.clauses[0].sign and not any(OPERATORS[one.sign].counts for one in query.clauses):
        problem = "it only excludes: add words to search for"
        raise QueryError(problem, query.text, query.clauses[0].column)
    return query


def spoken(query: Query) -> str:
    """A query as a sentence: as typed, or where it has operators the words that count."""
    if query.operator is None:
        return query.text.strip()
    return " ".join(one.text.strip() for one in query.clauses if OPERATORS[one.sign].counts)


def plain_text(query: str | Query) -> str:
    """A query as typed, for a searcher that has no operators.

    Raises:
        QueryError: as `parse`, and if the query has an operator.
    """
    query = parsed(query)
    if query.operator is not None:
        problem = "a dense model has no signs and weights: leave them out, or search sparta"
        raise QueryError(problem, query.text, query.operator.column)
    return query.text.strip()


def _tokens(text: str) -> Iterator[tuple[int, str | Clause]]:
    """Columns with plain text, without escapes, and clauses, in order."""
    place = 0
    while place < len(text):
        token, end = _token(text, place)
        yield place + 1, token
        place = end


def _token(text: str, place: int) -> tuple[str | Clause, int]:
    """The plain text or clause that begins at a place, and where it ends."""
    if space := _SPACE.match(text, place):
        return space[0], space.end()
    if phrase := _PHRASE.match(text, place):
        operator = phrase["sign"] or phrase["weight"]
        return _clause(phrase) if operator else phrase[0], phrase.end()
    if unclosed := _UNCLOSED.match(text, place):
        problem = "this quotation mark is not closed before a space or the end"
        raise QueryError(problem, text, unclosed.end() + 1)
    if word := _SIGNED.match(text, place) or _WEIGHTED.match(text, place):
        return _clause(word), word.end()
    part = _PART.match(text, place)
    assert part is not None
    return _ESCAPE.sub("", part[0]), part.end()


def _clause(found: re.Match[str]) -> Clause:
    text = found.string
    words = _ESCAPE.sub("", _ESCAPED_QUOTE.sub(r"\1", found["words"])).strip()
    if not words:
        raise QueryError("there is no word between the quotation marks", text, found.start() + 1)
    sign, weight = _SIGNS[found["sign"]], found["weight"]
    if weight is None:
        return Clause(words, sign, word=True, column=found.start() + 1)
    column = found.start("weight") + 1
    if not OPERATORS[sign].counts:
        raise QueryError("an excluded word has no weight: leave it out", text, column)
    if len(weight) > 3 or not weight.isdecimal() or not 1 <= int(weight) <= LARGEST_WEIGHT:
        problem = f"a weight is a whole number from 1 to {LARGEST_WEIGHT}"
        raise QueryError(problem, text, column)
    return Clause(words, sign, int(weight), word=True, column=found.start() + 1)
