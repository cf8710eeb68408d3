"""The ways to prune that a study compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from indexer.settings import OFFSET_KINDS, OffsetKind, TermSet, check_power
from sparta.errors import InputError


@dataclass(frozen=True)
class PruningChoice:
    """One way to prune; see `PruningSettings`.

    Attributes:
        top_n: terms an image keeps, None for all.
        offset: what is subtracted.
        terms: the allowed terms.
        asked: "model", "none" or the path of a file of queries.
        asked_power: of the terms' frequencies, 0 for "none".
    """

    top_n: int | None
    offset: OffsetKind
    terms: TermSet
    asked: str = "none"
    asked_power: float = 0.0

    def name(self, bits: int) -> str:
        """Name of the folder of an index with impacts of so many bits."""
        asked = f"{Path(self.asked).stem}-{self.asked_power:g}" if self.asked_power else "none"
        return f"{self.offset}-{self.terms}-{asked}-{self.top_n or 'all'}-{bits}-bits"


def parse_choices(
    top_n: str, offset: str, terms: str, asked: str = "none", asked_power: str = "0"
) -> list[PruningChoice]:
    """Every combination of five lists with commas; top-n changes fastest.

    No power belongs to "none", which makes one choice.

    Raises:
        InputError: if a value is not a choice.
    """
    return [
        PruningChoice(None if n == "all" else int(n), kind, which, *weighed)  # type: ignore[arg-type]
        for weighed in _parse_asked(asked, asked_power)
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


def _parse_asked(asked: str, powers: str) -> list[tuple[str, float]]:
    """Pairs of a source of frequencies and a power."""
    return list(
        dict.fromkeys(
            (source, 0.0 if source == "none" else power)
            for source in (name.strip() for name in asked.split(","))
            for power in map(_power, powers.split(","))
        )
    )


def _power(text: str) -> float:
    try:
        power = float(text)
    except ValueError as error:
        raise InputError(f"--asked-power: {text!r} is not a number from 0 to 1") from error
    check_power(power)
    return power


def _named(text: str, option: str, known: Sequence[str], numbers: bool = False) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known and not (numbers and name.isdecimal() and int(name)):
            expected = ", ".join([*["numbers from 1"] * numbers, *known])
            raise InputError(f"{option}: {name!r} is not one of: {expected}")
    return list(dict.fromkeys(names))
