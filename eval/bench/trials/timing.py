"""Two kernels in turns: their answers compared, their times taken."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.query_latency.ground_truth import WrongAnswer
from eval.bench.trials.arguments import Arguments, arguments_of
from eval.bench.trials.compiled import Kernel
from indexer.columns.index import ColumnIndex

BLOCKS = 10  # of queries: the other kernel runs between two of them


@dataclass(frozen=True)
class Side:
    """A kernel, and the columns that it searches."""

    kernel: Kernel
    index: ColumnIndex


def compare(name: str, shipped: Side, tried: Side, queries: Sequence[TermQuery], k: int) -> None:
    """Ask both all queries, which warms them up.

    Raises:
        WrongAnswer: if a document or a score differs.
    """
    for query in queries:
        if _answer(shipped, query, k) != _answer(tried, query, k):
            raise WrongAnswer(f"{name} is not exact: {query.text!r}, k = {k}")


def _answer(side: Side, query: TermQuery, k: int) -> tuple[list[int], list[int]]:
    """Documents and scores."""
    asked = arguments_of(side.index, query, k)
    found = side.kernel.best_documents(*asked)
    return asked[-2][:found].tolist(), asked[-1][:found].tolist()


def in_turns(
    sides: Sequence[Side], queries: Sequence[TermQuery], k: int, turns: int
) -> NDArray[np.float64]:
    """Time every query on each side, a block of queries each in turns.

    Other load on the machine affects both alike, and a query's fastest turn least. Sides are at
    different blocks, so that none finds in the cache what another has just read.

    Args:
        sides: at least two.
        queries: of each turn.
        k: hits.
        turns: how often every query is asked.

    Returns:
        [sides, queries] seconds of the fastest turn.
    """
    asked = [[arguments_of(side.index, query, k) for query in queries] for side in sides]
    seconds = np.full((len(sides), len(queries)), np.inf)
    blocks = np.array_split(np.arange(len(queries)), min(BLOCKS, len(queries)))
    for number in range(turns * len(blocks)):
        for side in range(len(sides)):
            own = blocks[(number + side * len(blocks) // len(sides)) % len(blocks)]
            for query in own.tolist():
                taken = _seconds(sides[side].kernel, asked[side][query])
                seconds[side, query] = min(seconds[side, query], taken)
    return seconds


def _seconds(kernel: Kernel, asked: Arguments) -> float:
    start = time.perf_counter()
    kernel.best_documents(*asked)
    return time.perf_counter() - start
