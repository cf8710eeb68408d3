"""A query as its text means it: clauses to search, to require and to exclude."""

from __future__ import annotations

from typing import Literal, NamedTuple

from sparta.errors import InputError

LARGEST_WEIGHT = 100
SHOWN = 60  # characters of a long query beside the place of an error

Sign = Literal["", "+", "-"]


class Clause(NamedTuple):
    """A part of a query.

    Attributes:
        text: without operators and escapes.
        sign: "+" for a word that a photo must have, "-" for one that it must not have.
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
        text: as typed.
        clauses: in the order of the text; of a text without operators the text itself.
    """

    text: str
    clauses: tuple[Clause, ...]

    @classmethod
    def plain(cls, text: str) -> Query:
        """A text in which nothing is an operator, such as the caption of a photo."""
        return cls(text, (Clause(text),))

    @property
    def operator(self) -> Clause | None:
        """The first clause with an operator, None for plain text."""
        return next((clause for clause in self.clauses if clause.word), None)


class QueryError(InputError):
    """Raised for a query that cannot be read.

    Attributes:
        problem: what is wrong, and what to write.
        column: of the character where it is, from 1.

    Args:
        problem: one line.
        text: the query.
        column: of the character where it is, from 1.
    """

    def __init__(self, problem: str, text: str, column: int) -> None:
        self.problem, self.column = problem, column
        start = max(0, column - 1 - SHOWN // 2)
        shown = "".join(" " if char.isspace() else char for char in text[start : start + SHOWN])
        pointer = " " * (column - 1 - start) + "^"
        super().__init__(f"query, column {column}: {problem}\n  {shown}\n  {pointer}")
