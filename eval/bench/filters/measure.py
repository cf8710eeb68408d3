"""Measures searches under filters beside searches without, and the first use of filters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from eval.bench.filters.fields import first_uses, make_fields
from eval.bench.filters.masks import masks
from eval.bench.filters.plan import FilterPlan
from eval.bench.filters.results import FilterFigures, FirstUse, Searched
from eval.bench.serving.enlarged_index import enlarge_index
from indexer.columns.index import ColumnIndex
from indexer.columns.manifest import FOLDER
from indexer.search.columns import ColumnSearcher
from indexer.search.lucene import LuceneSearcher
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

CHECKED = 10  # queries, each by all scores


def measure_filters(
    source: Path,
    work: Path,
    texts: Sequence[str],
    plan: FilterPlan,
    progress: Progress = no_progress,
) -> FilterFigures:
    """Time searches among some of the images, and filters among all.

    Args:
        source: index whose images the measured ones are made of.
        work: folder of what is made, which the next measurement takes again.
        texts: queries.
        plan: what is measured.
        progress: stages "write" and "describe", in images, and "measure", in queries.

    Raises:
        InputError: if the folder is no index, or an answer is wrong.
    """
    found = FilterFigures(plan)
    for kind in plan.kinds:
        terms = "all" if plan.top_n is None else plan.top_n
        index = work / f"{source.name}-{kind}-{plan.images}-{terms}-{plan.seed}"
        if not index.exists():
            enlarge_index(
                source, index, plan.images, progress, plan.seed, kind=kind, top_n=plan.top_n
            )
        with closing(ColumnSearcher(index)) as searcher:
            searcher.warm_up()
            order = ColumnIndex.open(index / FOLDER).columns.order
            for name, share, mask in masks(order, plan.shares, plan.seed):
                own = texts[: plan.queries]
                found.searched.append(_searched(searcher, own, plan.k, mask, (kind, name, share)))
                progress("measure", len(found.searched), 2 * len(plan.shares) * len(plan.kinds))
    fields = work / f"fields-{plan.images}-{plan.seed}"
    make_fields(fields, plan, progress)
    for text, images, opened, seconds in first_uses(fields):
        found.first_uses.append(FirstUse(text, images, 1000 * opened, 1000 * seconds))
    return found


def _searched(
    searcher: LuceneSearcher,
    texts: Sequence[str],
    k: int,
    mask: NDArray[np.bool_],
    name: tuple[str, str, float],
) -> Searched:
    """Each query without and with the filter in turn."""
    start = time.perf_counter()
    searcher.search(texts[0], k, allowed=mask)
    first = time.perf_counter() - start
    for text in texts[:CHECKED]:
        _check(searcher, text, k, mask)
    plain, filtered = [], []
    for text in texts:
        start = time.perf_counter()
        searcher.search(text, k)
        between = time.perf_counter()
        searcher.search(text, k, allowed=mask)
        plain.append(between - start)
        filtered.append(time.perf_counter() - between)
    return Searched.of(name, plain, filtered, first)


def _check(searcher: LuceneSearcher, text: str, k: int, mask: NDArray[np.bool_]) -> None:
    """Compare the hits with the best of all scores.

    Raises:
        InputError: if they differ.
    """
    scores = np.where(mask, searcher.matching(text).scores, 0)
    # As built, documents are in the order of the ids.
    best = np.lexsort((np.arange(len(scores)), -scores))[:k]
    right = [(searcher.image_id(one), scores[one]) for one in best.tolist() if scores[one]]
    found = [(hit.image_id, hit.score) for hit in searcher.search(text, k, allowed=mask).hits]
    if found != right:
        raise InputError(f"{text!r}: {found[:3]}… are not {right[:3]}…")
