"""What to measure: the chosen engines, and the images, vectors and queries that are read."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval.bench.query_latency.choices import Choices
from eval.bench.query_latency.collections.dense_vectors import (
    CLUSTERED,
    DenseSource,
    clustered,
    read_dense,
)
from eval.bench.query_latency.collections.enlarge import CollectionKind
from eval.bench.query_latency.collections.impact_source import ImpactSource, read_source
from eval.bench.query_latency.collections.queries import TermQuery, read_queries, tokenise
from eval.bench.query_latency.collections.synthetic import synthetic_queries, synthetic_source
from eval.bench.query_latency.encoder_times import embedding_times, tokenising_times
from eval.bench.query_latency.engines.base import Engine
from eval.bench.query_latency.engines.registry import DENSE, VIEWS, find
from eval.bench.query_latency.reporting.results_file import Results
from eval.bench.query_latency.timing import Pace
from sparta.errors import InputError
from sparta.tokenizer import WordPieceTokenizer

VIEWS_OF_AN_IMAGE = 3  # of MV-VSE, for synthetic vectors

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LatencyPlan:
    """What to measure.

    Attributes:
        source: images that collections are made of.
        dense: vectors that collections are made of.
        queries: at least two.
        kind: of collection.
        sizes: numbers of images.
        top_n: terms an image keeps, None for all. Dense engines, to which it does not apply, are
            timed beside the others at the first.
        ks: hits per query.
        threads: that search at once.
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
    engines: dict[str, type[Engine[Any]]]
    pace: Pace
    work: Path


def make_plan(
    index: Path | None, queries: Path | None, choices: Choices, work: Path, results: Results
) -> LatencyPlan:
    """Read the images and queries, or make synthetic ones, and note in the results which.

    Args:
        index: whose images are enlarged, None for synthetic ones.
        queries: text file; an index needs one.
        choices: what to measure.
        work: folder for collections and indexes.
        results: of earlier runs.

    Raises:
        InputError: if index, queries or engines cannot be used, alone or together.
    """
    engines = _find_engines(choices.engines, results)
    logger.info("reading images and queries")
    if index is None:
        source, asked = synthetic_source(), synthetic_queries(choices.limit)
    else:
        if queries is None:
            raise InputError("--queries is missing: an index needs a file of queries")
        source = read_source(index)
        _check_top_n(source, choices.top_n)
        tokenizer = WordPieceTokenizer.from_folder(index)
        asked = tokenise(read_queries(queries), tokenizer, choices.limit)
        results.encoders |= tokenising_times(asked, tokenizer)
    vectors = _vectors(index, choices.dense, asked, set(engines))
    results.source(source.name, source.about)
    for one in vectors:
        results.source(one.name, one.about)
    results.encoders |= embedding_times(vectors)
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
        pace=choices.pace,
        work=work,
    )


def _find_engines(names: list[str], results: Results) -> dict[str, type[Engine[Any]]]:
    engines, left_out = find(names)
    results.left_out = {n: why for n, why in results.left_out.items() if n not in engines}
    results.left_out |= left_out
    results.engines |= {
        name: {"settings": engine.settings, "promise": engine.promise.value}
        for name, engine in engines.items()
    }
    return engines


def _check_top_n(source: ImpactSource, wanted: Sequence[int | None]) -> None:
    kept = source.about["top_n"]
    if isinstance(kept, int) and any(n is None or n > kept for n in wanted):
        raise InputError(
            f"--top-n: the index keeps {kept} terms an image and has no more to choose from: "
            "build it with sparta index --top-n all"
        )
    if source.about["asked"] != "none" and any(n != kept for n in wanted):
        raise InputError(
            f"--top-n: the index keeps {kept} terms an image by score and frequency, from which no "
            f"fewer can be chosen: give {kept}"
        )


def _vectors(
    index: Path | None, names: list[str], queries: Sequence[TermQuery], engines: set[str]
) -> list[DenseSource]:
    found = []
    for name in names:
        if name == CLUSTERED:
            found += [clustered(len(queries))] if engines & set(DENSE) else []
            found += [clustered(len(queries), VIEWS_OF_AN_IMAGE)] if engines & set(VIEWS) else []
        elif index is None:
            raise InputError(f"--dense {name}: without an index there is only clustered")
        else:
            logger.info("embedding the queries with %s", name)
            found.append(read_dense(index, name, queries))
    return found
