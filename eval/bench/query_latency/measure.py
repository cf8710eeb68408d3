"""The whole measurement: collection by collection, engine by engine, cell by cell."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from eval.bench.query_latency.collections.corpus import Corpus
from eval.bench.query_latency.collections.dense_vectors import DenseSource, Vectors, enlarge_vectors
from eval.bench.query_latency.collections.enlarge import enlarge
from eval.bench.query_latency.engines.base import Engine
from eval.bench.query_latency.engines.registry import DENSE, SPARSE, VIEWS
from eval.bench.query_latency.ground_truth import GroundTruth
from eval.bench.query_latency.plan import LatencyPlan
from eval.bench.query_latency.reporting.results_file import Cell, Results
from eval.bench.query_latency.timing import interleave

logger = logging.getLogger(__name__)

BUILT = "built.json"


@dataclass
class EngineRun:
    """One engine over one collection.

    Attributes:
        name: of the engine.
        vectors: name of the vectors.
        top_n: as in `Cell`.
        images: in the collection.
        engine: itself.
        truth: the right answers.
        about: what is put down beside every figure of it.
    """

    name: str
    vectors: str
    top_n: int | str | None
    images: int
    engine: Engine[Any]
    truth: GroundTruth
    about: dict[str, Any] = field(default_factory=dict)

    def cell(self, kind: str, k: int, threads: int) -> Cell:
        """The cell of its figures."""
        return Cell(kind, self.vectors, self.name, self.images, self.top_n, k, threads)


def measure_latency(plan: LatencyPlan, results: Results) -> None:
    """Measure the cells missing from the results, and save them after every cell.

    Every collection, index and cell that is done is logged.

    A collection and its indexes are made when a cell needs them, serve all k and numbers of
    threads, and are deleted. An interrupted run goes on with those that were whole.

    Args:
        plan: what to measure.
        results: grows.

    Raises:
        WrongAnswer: if an engine that promises right answers gives others.
    """
    for images, top_n in product(plan.sizes, plan.top_n):
        if wanted := _wanted(plan, results, images, top_n):
            folder = plan.work / f"{plan.kind}-{plan.source.name}-{images}-{top_n or 'all'}"
            folder.mkdir(parents=True, exist_ok=True)
            logger.info(f"{images:,} images, {plan.kind}, top-n {top_n or 'all'}")
            with ExitStack() as stack:
                members = list(_members(plan, folder, images, top_n, wanted))
                for member in members:
                    stack.enter_context(_opened(member))
                    logger.info(f"  {member.name}: {_built(member)}")
                _time(plan, results, members)
            del members  # some hundred megabytes of right answers
            shutil.rmtree(folder)
    if plan.work.is_dir() and not any(plan.work.iterdir()):
        plan.work.rmdir()


def _wanted(
    plan: LatencyPlan, results: Results, images: int, top_n: int | None
) -> list[tuple[str, DenseSource | None]]:
    """Engines that some cell of a collection is missing of, and their vectors if they have any."""
    sparse = _lacking(plan, results, SPARSE, plan.source.name, images, top_n or "all")
    wanted: list[tuple[str, DenseSource | None]] = [(name, None) for name in sparse]
    for vectors in plan.dense if top_n == plan.top_n[0] else ():
        group = DENSE if vectors.images.shape[1] == 1 else VIEWS
        dense = _lacking(plan, results, group, vectors.name, images, None)
        wanted += [(name, vectors) for name in dense]
    return wanted


def _lacking(
    plan: LatencyPlan,
    results: Results,
    group: dict[str, str],
    vectors: str,
    images: int,
    top_n: int | str | None,
) -> list[str]:
    """Those of a group."""
    return [
        name
        for name in plan.engines
        if name in group
        and not all(
            results.has(Cell(plan.kind, vectors, name, images, top_n, k, threads))
            for k, threads in product(plan.ks, plan.threads)
        )
    ]


def _members(
    plan: LatencyPlan,
    folder: Path,
    images: int,
    top_n: int | None,
    wanted: list[tuple[str, DenseSource | None]],
) -> Iterator[EngineRun]:
    """Make the collections that are wanted, and the engines over them."""
    asked = plan.queries[: plan.pace.kept]
    for vectors in dict.fromkeys(vectors for _, vectors in wanted):
        data: Corpus | Vectors
        if vectors is None:
            data = _corpus(plan, folder / "corpus", images, top_n)
            truth = GroundTruth.of_impacts(data, asked)
            label, n, postings = plan.source.name, top_n or "all", data.postings
        else:
            data = enlarge_vectors(vectors, images, plan.kind, folder / f"{vectors.name}.npy")
            truth = GroundTruth.of_vectors(data, asked)
            label, n, postings = vectors.name, None, None
        for name in (name for name, own in wanted if own is vectors):
            engine = plan.engines[name](data, folder / f"{label}-{name}")
            yield EngineRun(name, label, n, images, engine, truth, {"postings": postings})


def _corpus(plan: LatencyPlan, folder: Path, images: int, top_n: int | None) -> Corpus:
    source = plan.source
    rows = enlarge(source, images, top_n, plan.kind)
    return Corpus.open(folder) or Corpus.write(folder, source.vocabulary, source.bits, rows)


@contextmanager
def _opened(member: EngineRun) -> Iterator[None]:
    """Build unless that is done, open, and note what it took."""
    engine, mark = member.engine, member.engine.folder / BUILT
    if not mark.is_file():
        shutil.rmtree(engine.folder, ignore_errors=True)
        engine.folder.mkdir(parents=True)
        start = time.perf_counter()
        engine.build()
        seconds = time.perf_counter() - start
        size = sum(path.stat().st_size for path in engine.folder.rglob("*") if path.is_file())
        mark.write_text(json.dumps({"build_seconds": seconds, "index_bytes": size}))
    engine.open()
    member.about |= json.loads(mark.read_text()) | {"memory_bytes": engine.memory_bytes()}
    try:
        yield
    finally:
        engine.close()


def _built(member: EngineRun) -> str:
    about = member.about
    return (
        f"built in {about['build_seconds']:,.1f} s, {about['index_bytes'] / 1e6:,.1f} MB, "
        f"{about['memory_bytes'] / 1e6:,.1f} MB in memory"
    )


def _time(plan: LatencyPlan, results: Results, members: Sequence[EngineRun]) -> None:
    """Time the members together, for every k and number of threads that some of them lack."""
    for k, threads in product(plan.ks, plan.threads):
        due = {
            f"{member.name} {member.vectors}": member
            for member in members
            if not results.has(member.cell(plan.kind, k, threads))
        }
        if not due:
            continue
        timed = interleave(
            {name: member.engine for name, member in due.items()},
            plan.queries,
            k,
            threads,
            plan.pace,
        )
        for name, member in due.items():
            answers = timed[name].answers
            overlap = member.truth.check(name, member.engine.promise, answers, k)
            figures = timed[name].figures()
            checked = {"checked": len(answers), "overlap_at_10": overlap}
            beside = {"beside": [other for other in due if other != name]}
            results.add(
                member.cell(plan.kind, k, threads), figures | checked | member.about | beside
            )
            logger.info(
                f"  k {k}, threads {threads}, {name}: {figures['mean_ms']:.3f} ms, "
                f"{figures['queries_per_second']:,.1f} queries/s, overlap {overlap:.3f}"
            )
        results.save()
