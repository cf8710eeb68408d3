"""The ways to prune that a study compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from indexer.settings import OFFSET_KINDS, OffsetKind, TermSet
from sparta.errors import InputError


@dataclass(frozen=True)
class PruningChoice:
    """One way to prune: terms an image keeps (None: all), offset, and the allowed terms."""

    top_n: int | None
    offset: OffsetKind
    terms: TermSet


def parse_choices(top_n: str, offset: str, terms: str) -> list[PruningChoice]:
    """Every combination of three lists with commas; top-n changes fastest.

    Raises:
        InputError: if a value is not a choice.
    """
    return [
        PruningChoice(None if n == "all" else int(n), kind, which)  # type: ignore[arg-type]
        for which in _named(terms, "--terms", get_args(TermSet))
        for kind in _named(offset, "--offset", OFFSET_KINDS)
        for n in _named(top_n, "--top-n", ("all",), numbers=True)
    ]


def parse_bits(text: str) -> list[int | None]:
    """Numbers of bits out of a list with commas; "float" gives None.

    Raises:
        InputError: if something is neither.
    """
    names = _named(text, "--bits", ("float",), numbers=True)
    return [None if name == "float" else int(name) for name in names]


def _named(text: str, option: str, known: Sequence[str], numbers: bool = False) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known and not (numbers and name.isdecimal() and int(name)):
            expected = ", ".join([*["numbers from 1"] * numbers, *known])
            raise InputError(f"{option}: {name!r} is not one of: {expected}")
    return list(dict.fromkeys(names))
