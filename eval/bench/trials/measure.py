"""Times trials beside what ships, on collections of any size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from eval.bench.query_latency.collections.enlarge import CollectionKind
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.made_columns import SHIPPED, Layout, made_columns
from eval.bench.query_latency.collections.queries import TermQuery
from eval.bench.trials.compiled import Kernel, compiled
from eval.bench.trials.results import Case, Times, Trials
from eval.bench.trials.timing import Side, compare, in_turns
from eval.bench.trials.trial import Trial
from indexer.columns.index import ColumnIndex
from sparta.errors import InputError
from sparta.progress import Progress, no_progress


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        source: whose images collections are made of.
        queries: all are compared and timed.
        kinds: of collections.
        images: of each.
        top_n: terms an image keeps, None for all.
        ks: numbers of hits.
        turns: in which every query is asked.
        work: folder of collections and compiled kernels, which the next measurement takes again.
    """

    source: ImpactSource
    queries: Sequence[TermQuery]
    kinds: Sequence[CollectionKind]
    images: int
    top_n: int | None
    ks: Sequence[int]
    turns: int
    work: Path

    def opened(self, kind: CollectionKind, layout: Layout = SHIPPED) -> ColumnIndex:
        """The columns of a collection."""
        return made_columns(self.source, kind, self.images, self.top_n, self.work, layout)


def measure_trials(
    plan: Plan,
    trials: Sequence[Trial],
    flags: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> Trials:
    """Compile all trials, and time each on every collection.

    Args:
        plan: of the measurement.
        trials: to be timed.
        flags: of the C compiler; None for those of the package.
        progress: stages "compile", in trials, and "measure", in cases.

    Raises:
        InputError: if the package has no compiled kernel, or a patch does not fit.
        WrongAnswer: if a trial is not exact.
    """
    shipped = shipped_kernel()
    kernels: dict[str, Kernel] = {}
    for trial in trials:
        same = trial.layout != SHIPPED
        kernels[trial.name] = shipped if same else compiled(trial, plan.work / "kernels", flags)
        progress("compile", len(kernels), len(trials))
    cases: list[Case] = []
    for kind in plan.kinds:
        side = Side(shipped, plan.opened(kind))
        for trial in trials:
            other = plan.opened(kind, trial.layout) if trial.layout != SHIPPED else side.index
            cases += _cases(plan, kind, trial, side, Side(kernels[trial.name], other))
            progress("measure", len(cases), len(plan.kinds) * len(trials) * len(plan.ks))
    return Trials(plan.images, plan.top_n, cases)


def shipped_kernel() -> Kernel:
    """The kernel that searches run.

    Raises:
        InputError: if the package was built without a compiler.
    """
    try:
        from indexer.columns.native import _native
    except ImportError as error:
        raise InputError("trials need a C compiler, and a package that was built by it") from error
    return cast(Kernel, _native)


def _cases(
    plan: Plan, kind: CollectionKind, trial: Trial, shipped: Side, tried: Side
) -> Iterator[Case]:
    for k in plan.ks:
        compare(trial.name, shipped, tried, plan.queries, k)
        seconds = in_turns([shipped, tried], plan.queries, k, plan.turns)
        times = [
            Times.of(own, bytes_per_posting(side.index))
            for own, side in zip(seconds, (shipped, tried), strict=True)
        ]
        yield Case(trial.name, trial.about, kind, k, *times)


def bytes_per_posting(index: ColumnIndex) -> float:
    """Bytes of all arrays of columns by their postings."""
    size = sum(array.nbytes for array in index.columns)
    return size / max(1, int(index.document_frequencies.sum()))
