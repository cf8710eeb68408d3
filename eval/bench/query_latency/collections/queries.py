"""Queries in the form that every engine takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparta.errors import InputError
from sparta.tokenizer import Tokenizer


@dataclass(frozen=True)
class TermQuery:
    """One query, tokenised.

    Attributes:
        number: its row in the vectors of dense models.
        text: as typed.
        pieces: its word pieces with a blank between, as Lucene takes them.
        terms: term id → how often it occurs.
    """

    number: int
    text: str
    pieces: str
    terms: dict[int, int]


def tokenise(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> list[TermQuery]:
    """Texts in random order, without those that have no word piece in the index.

    A file has the captions of one photo together; in that order, each would find the postings of
    the one before in the processor's cache.

    Args:
        texts: of the queries.
        tokenizer: of the index.
        limit: queries at most.

    Raises:
        InputError: if fewer than two are left.
    """
    ids = {term: number for number, term in enumerate(tokenizer.vocabulary)}
    found: list[TermQuery] = []
    for place in np.random.default_rng(0).permutation(len(texts)):
        parsed = tokenizer.encode_query(texts[place])
        if parsed.pieces and len(found) < limit:
            terms = {ids[term]: count for term, count in parsed.terms.items()}
            found.append(TermQuery(len(found), texts[place], " ".join(parsed.pieces), terms))
    if len(found) < 2:
        raise InputError(f"{len(found)} queries with a word of the index: give at least two")
    return found


def read_queries(path: Path) -> list[str]:
    """A file's distinct lines that are not blank.

    Raises:
        InputError: if it is not UTF-8 text.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    return [line for line in dict.fromkeys(lines) if line.strip()]
