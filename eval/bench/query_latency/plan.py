"""What to measure, as the command line says it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.dense_vectors import (
    CLUSTERED,
    DenseSource,
    clustered,
    read_dense,
)
from eval.bench.query_latency.collections.enlarge import KINDS, CollectionKind
from eval.bench.query_latency.collections.impact_source import ImpactSource, read_source
from eval.bench.query_latency.collections.queries import TermQuery, read_queries, tokenise
from eval.bench.query_latency.collections.synthetic import synthetic_queries, synthetic_source
from eval.bench.query_latency.engines.base import Engine
from eval.bench.query_latency.engines.registry import DENSE, ENGINES, VIEWS, find
from eval.bench.query_latency.reporting.results_file import Results
from eval.bench.query_latency.reporting.tables import PIECES
from eval.bench.query_latency.timing import Pace
from sparta.errors import InputError
from sparta.tokenizer import Tokenizer, WordPieceTokenizer

UNASKED = "seismic"  # takes minutes to build for some thousand images of 1,000 terms
VIEWS_OF_AN_IMAGE = 3  # of MV-VSE, for vectors that are made up

Tell = Callable[[str], None]


@dataclass(frozen=True)
class LatencyPlan:
    """What to measure.

    Attributes:
        source: images that collections are made of.
        dense: vectors that collections are made of.
        queries: at least two.
        kind: of collection.
        sizes: numbers of images.
        top_n: terms an image keeps, None for all. Dense engines, to which it means nothing, take
            their turn among the others at the first.
        ks: hits of an answer.
        threads: that ask at once.
        engines: to time.
        pace: how long.
        work: folder for collections and indexes while they are needed.
    """

    source: ImpactSource
    dense: Sequence[DenseSource]
    queries: Sequence[TermQuery]
    kind: CollectionKind
    sizes: Sequence[int]
    top_n: Sequence[int | None]
    ks: Sequence[int]
    threads: Sequence[int]
    engines: dict[str, type[Engine]]
    pace: Pace
    work: Path


class Choices(NamedTuple):
    """Lists of the command line; see `LatencyPlan`."""

    sizes: list[int]
    top_n: list[int | None]
    kind: CollectionKind
    engines: list[str]
    ks: list[int]
    threads: list[int]


def check_choices(
    *, sizes: str, top_n: str, kind: str, engines: str | None, k: str, threads: str
) -> Choices:
    """Read lists with commas, in the order they are given in.

    Raises:
        InputError: if something in them is not a choice.
    """
    if kind not in KINDS:
        raise InputError(f"--kind must be one of {', '.join(KINDS)}, got {kind!r}")
    names = [name for name in ENGINES if name != UNASKED]
    if engines is not None:
        names = [name.strip() for name in engines.split(",")]
    return Choices(
        _numbers(sizes, "--sizes"),
        [None if n.strip() == "all" else _number(n, "--top-n") for n in top_n.split(",")],
        kind,
        names,
        _numbers(k, "-k"),
        _numbers(threads, "--threads"),
    )


def _numbers(text: str, option: str) -> list[int]:
    return [_number(part, option) for part in text.split(",")]


def _number(text: str, option: str) -> int:
    if not (text.strip().isdecimal() and int(text)):
        raise InputError(f"{option}: {text.strip()!r} is not a number from 1")
    return int(text)


def make_plan(
    index: Path | None,
    queries: Path | None,
    choices: Choices,
    dense: list[str],
    pace: Pace,
    limit: int,
    work: Path,
    results: Results,
    tell: Tell,
) -> LatencyPlan:
    """Read the images and queries there are, or make some up, and note in the results which.

    Args:
        index: whose images are enlarged, None for made-up ones.
        queries: text file; an index needs one.
        choices: what to measure.
        dense: parts of the index, or "clustered".
        pace: how long to measure.
        limit: queries at most.
        work: folder for collections and indexes.
        results: of earlier runs.
        tell: called with a line about every step.

    Raises:
        InputError: if index, queries or engines cannot be used or go together.
    """
    engines, left_out = find(choices.engines)
    results.left_out = {n: why for n, why in results.left_out.items() if n not in engines}
    results.left_out |= left_out
    results.engines |= {
        name: {"settings": engine.settings, "promise": engine.promise.value}
        for name, engine in engines.items()
    }
    tell("reading images and queries")
    if index is None:
        source, asked = synthetic_source(), synthetic_queries(limit)
    else:
        if queries is None:
            raise InputError("--queries is missing: an index is asked real queries")
        source = read_source(index)
        _check_top_n(source, choices.top_n)
        tokenizer = WordPieceTokenizer.from_folder(index)
        asked = tokenise(read_queries(queries), tokenizer, limit)
        results.encoders |= _word_pieces(asked, tokenizer)
    vectors = _vectors(index, dense, asked, set(engines), tell)
    results.source(source.name, source.about)
    for one in vectors:
        results.source(one.name, one.about)
    results.encoders |= _encoders(vectors)
    return LatencyPlan(
        source=source,
        dense=vectors,
        queries=asked,
        kind=choices.kind,
        sizes=choices.sizes,
        top_n=choices.top_n,
        ks=choices.ks,
        threads=choices.threads,
        engines=engines,
        pace=pace,
        work=work,
    )


def _check_top_n(source: ImpactSource, wanted: Sequence[int | None]) -> None:
    kept = source.about["top_n"]
    if isinstance(kept, int) and any(n is None or n > kept for n in wanted):
        raise InputError(
            f"--top-n: the index keeps {kept} terms an image and has no more to choose from: "
            "build it with sparta index --top-n all"
        )


def _vectors(
    index: Path | None,
    names: list[str],
    queries: Sequence[TermQuery],
    engines: set[str],
    tell: Tell,
) -> list[DenseSource]:
    found = []
    for name in names:
        if name == CLUSTERED:
            found += [clustered(len(queries))] if engines & set(DENSE) else []
            found += [clustered(len(queries), VIEWS_OF_AN_IMAGE)] if engines & set(VIEWS) else []
        elif index is None:
            raise InputError(f"--dense {name}: without an index there is only clustered")
        else:
            tell(f"embedding the queries with {name}")
            found.append(read_dense(index, name, queries))
    return found


def _encoders(dense: Sequence[DenseSource]) -> dict[str, Any]:
    """Times of embedding a text, for vectors of models."""
    return {
        one.name: {"text": one.about["text"], **_milliseconds(one.encode_seconds)}
        for one in dense
        if len(one.encode_seconds)
    }


def _word_pieces(queries: Sequence[TermQuery], tokenizer: Tokenizer) -> dict[str, Any]:
    """Times of all that a text takes before the inverted index can be asked."""
    seconds = []
    for query in queries:
        start = time.perf_counter()
        _ = tokenizer.encode_query(query.text).terms
        seconds.append(time.perf_counter() - start)
    return {PIECES: {"text": PIECES, **_milliseconds(np.array(seconds))}}


def _milliseconds(seconds: NDArray[np.float64]) -> dict[str, float | int]:
    tails = {f"p{p}_ms": 1000 * float(np.percentile(seconds, p)) for p in (50, 95, 99)}
    return {"queries": len(seconds), "mean_ms": 1000 * float(seconds.mean()), **tails}
