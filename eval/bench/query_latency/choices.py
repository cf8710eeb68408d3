"""What the command line of the query latency benchmark chooses."""

from __future__ import annotations

from typing import NamedTuple

from eval.bench.query_latency.collections.enlarge import KINDS, CollectionKind
from eval.bench.query_latency.engines.registry import ENGINES
from eval.bench.query_latency.timing import Pace
from sparta.errors import InputError


class Choices(NamedTuple):
    """What to measure, before any file is read.

    Attributes:
        sizes: numbers of images.
        top_n: terms an image keeps, None for all.
        kind: of collection.
        engines: names.
        ks: hits per query.
        threads: that search at once.
        dense: names of dense parts of the index, or "clustered".
        pace: how long to measure.
        limit: queries at most.
    """

    sizes: list[int]
    top_n: list[int | None]
    kind: CollectionKind
    engines: list[str]
    ks: list[int]
    threads: list[int]
    dense: list[str]
    pace: Pace
    limit: int


def check_choices(
    *,
    sizes: str,
    top_n: str,
    kind: str,
    engines: str | None,
    k: str,
    threads: str,
    dense: list[str],
    pace: Pace,
    limit: int,
) -> Choices:
    """Parse lists with commas, in the given order.

    Raises:
        InputError: if a value is not a choice.
    """
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    names = list(ENGINES)
    if engines is not None:
        names = [name.strip() for name in engines.split(",")]
    return Choices(
        _numbers(sizes, "--sizes"),
        [None if n.strip() == "all" else _number(n, "--top-n") for n in top_n.split(",")],
        kind,
        names,
        _numbers(k, "-k"),
        _numbers(threads, "--threads"),
        dense,
        pace,
        limit,
    )


def _numbers(text: str, option: str) -> list[int]:
    return [_number(part, option) for part in text.split(",")]


def _number(text: str, option: str) -> int:
    if not (text.strip().isdecimal() and int(text)):
        raise InputError(f"{option}: {text.strip()!r} is not a number from 1")
    return int(text)
