"""`sparta bench speed`: engines side by side over growing collections, in the same queries."""

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

from eval.bench.collections import (
    CollectionKind,
    ImpactSource,
    enlarge,
    read_source,
    synthetic_queries,
    synthetic_source,
)
from eval.bench.corpus import Corpus, TermQuery, read_queries, tokenise
from eval.bench.engines import DENSE, SPARSE, VIEWS, Engine, find
from eval.bench.tables import PIECES, Cell, Results
from eval.bench.timing import Pace, interleave, milliseconds
from eval.bench.truth import GroundTruth
from eval.bench.vectors import (
    CLUSTERED,
    DenseSource,
    Vectors,
    clustered,
    enlarge_vectors,
    read_dense,
)
from sparta.errors import InputError
from sparta.tokenizer import Tokenizer, WordPieceTokenizer

VIEWS_OF_AN_IMAGE = 3  # of MV-VSE, for synthetic vectors
BUILT = "built.json"

logger = logging.getLogger(__name__)


# ---- what to measure ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Choices:
    """What the user asks for.

    Attributes:
        kind: of collection.
        sizes: numbers of images.
        top_n: terms an image keeps, None for all. Dense engines, to which it does not apply, are
            timed beside the others at the first.
        ks: hits per query.
        threads: that search at once.
        engines: names.
        dense: names of dense parts of the index, or "clustered".
        limit: queries at most.
        pace: how long to measure.
        work: folder for collections and indexes while they are needed.
    """

    kind: CollectionKind
    sizes: Sequence[int]
    top_n: Sequence[int | None]
    ks: Sequence[int]
    threads: Sequence[int]
    engines: Sequence[str]
    dense: Sequence[str]
    limit: int
    pace: Pace
    work: Path


@dataclass(frozen=True)
class SpeedPlan:
    """What is measured.

    Attributes:
        choices: the user's.
        source: images that collections are made of.
        vectors: that collections are made of.
        queries: at least two.
        engines: to time, by name.
    """

    choices: Choices
    source: ImpactSource
    vectors: Sequence[DenseSource]
    queries: Sequence[TermQuery]
    engines: dict[str, type[Engine[Any]]]


def make_plan(
    index: Path | None, queries: Path | None, choices: Choices, results: Results
) -> SpeedPlan:
    """Read the images and queries, or make synthetic ones, and note in the results which.

    Args:
        index: whose images are enlarged, None for synthetic ones.
        queries: text file; an index needs one.
        choices: what to measure.
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
        results.encoders |= {PIECES: {"text": PIECES, **_tokenising_times(asked, tokenizer)}}
    vectors = _vectors(index, choices.dense, asked, set(engines))
    results.source(source.name, source.about)
    for one in vectors:
        results.source(one.name, one.about)
        if one.encode_seconds:
            times = milliseconds(one.encode_seconds)
            results.encoders |= {one.name: {"text": one.about["text"], **times}}
    return SpeedPlan(choices, source, vectors, asked, engines)


def _find_engines(names: Sequence[str], results: Results) -> dict[str, type[Engine[Any]]]:
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
    index: Path | None, names: Sequence[str], queries: Sequence[TermQuery], engines: set[str]
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


def _tokenising_times(queries: Sequence[TermQuery], tokenizer: Tokenizer) -> dict[str, Any]:
    """Times of turning a text into the terms that the inverted index searches for."""
    seconds = []
    for query in queries:
        start = time.perf_counter()
        _ = tokenizer.encode_query(query.text).terms
        seconds.append(time.perf_counter() - start)
    return milliseconds(seconds)


# ---- collection by collection, engine by engine, cell by cell ----------------------------------


@dataclass
class Member:
    """One engine over one collection.

    Attributes:
        cell: of its figures, but for k and the number of threads.
        engine: itself.
        truth: the right answers.
        about: what is put down beside every figure of it.
    """

    cell: Cell
    engine: Engine[Any]
    truth: GroundTruth
    about: dict[str, Any] = field(default_factory=dict)

    def at(self, k: int, threads: int) -> Cell:
        """The cell of its figures."""
        return self.cell._replace(k=k, threads=threads)


def measure_speed(plan: SpeedPlan, results: Results) -> None:
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
    kind, work = plan.choices.kind, plan.choices.work
    for images, top_n in product(plan.choices.sizes, plan.choices.top_n):
        if wanted := _wanted(plan, results, images, top_n):
            folder = work / f"{kind}-{plan.source.name}-{images}-{top_n or 'all'}"
            folder.mkdir(parents=True, exist_ok=True)
            logger.info(f"{images:,} images, {kind}, top-n {top_n or 'all'}")
            with ExitStack() as stack:
                members = list(_members(plan, folder, top_n, wanted))
                for member in members:
                    stack.enter_context(_opened(member))
                    logger.info(f"  {member.cell.engine}: {_built(member)}")
                _time(plan, results, members)
            del members  # some hundred megabytes of right answers
            shutil.rmtree(folder)
    if work.is_dir() and not any(work.iterdir()):
        work.rmdir()


def _wanted(
    plan: SpeedPlan, results: Results, images: int, top_n: int | None
) -> dict[DenseSource | None, list[Cell]]:
    """Vectors, None for impacts → engines that some cell of a collection is missing of."""
    groups: list[tuple[DenseSource | None, dict[str, type[Engine[Any]]]]] = [(None, SPARSE)]
    if top_n == plan.choices.top_n[0]:
        groups += [(one, DENSE if one.images.shape[1] == 1 else VIEWS) for one in plan.vectors]
    wanted = {}
    for vectors, group in groups:
        label, n = (vectors.name, None) if vectors else (plan.source.name, top_n or "all")
        names = [name for name in plan.engines if name in group]
        cells = [Cell(plan.choices.kind, label, name, images, n, 0, 0) for name in names]
        due = [cell for cell in cells if _lacks(plan, results, cell)]
        if due:
            wanted[vectors] = due
    return wanted


def _lacks(plan: SpeedPlan, results: Results, cell: Cell) -> bool:
    pairs = product(plan.choices.ks, plan.choices.threads)
    return not all(results.has(cell._replace(k=k, threads=threads)) for k, threads in pairs)


def _members(
    plan: SpeedPlan,
    folder: Path,
    top_n: int | None,
    wanted: dict[DenseSource | None, list[Cell]],
) -> Iterator[Member]:
    """Make the collections that are wanted, and the engines over them."""
    asked = plan.queries[: plan.choices.pace.kept]
    for vectors, cells in wanted.items():
        images = cells[0].images
        data: Corpus | Vectors
        if vectors is None:
            data = _corpus(plan, folder / "corpus", images, top_n)
            truth, postings = GroundTruth.of_impacts(data, asked), data.postings
        else:
            data = enlarge_vectors(
                vectors, images, plan.choices.kind, folder / f"{vectors.name}.npy"
            )
            truth, postings = GroundTruth.of_vectors(data, asked), None
        for cell in cells:
            engine = plan.engines[cell.engine](data, folder / f"{cell.vectors}-{cell.engine}")
            yield Member(cell, engine, truth, {"postings": postings})


def _corpus(plan: SpeedPlan, folder: Path, images: int, top_n: int | None) -> Corpus:
    source = plan.source
    rows = enlarge(source, images, top_n, plan.choices.kind)
    return Corpus.open(folder) or Corpus.write(folder, source.vocabulary, source.bits, rows)


@contextmanager
def _opened(member: Member) -> Iterator[None]:
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


def _built(member: Member) -> str:
    about = member.about
    return (
        f"built in {about['build_seconds']:,.1f} s, {about['index_bytes'] / 1e6:,.1f} MB, "
        f"{about['memory_bytes'] / 1e6:,.1f} MB in memory"
    )


def _time(plan: SpeedPlan, results: Results, members: Sequence[Member]) -> None:
    """Time the members together, for every k and number of threads that some of them lack."""
    for k, threads in product(plan.choices.ks, plan.choices.threads):
        due = {
            f"{member.cell.engine} {member.cell.vectors}": member
            for member in members
            if not results.has(member.at(k, threads))
        }
        if not due:
            continue
        engines = {name: member.engine for name, member in due.items()}
        timed = interleave(engines, plan.queries, k, threads, plan.choices.pace)
        for name, member in due.items():
            answers, figures = timed[name].answers, timed[name].figures()
            overlap = member.truth.check(name, member.engine.promise, answers, k)
            checked = {"checked": len(answers), "overlap_at_10": overlap}
            beside = {"beside": [other for other in due if other != name]}
            results.add(member.at(k, threads), figures | checked | member.about | beside)
            logger.info(
                f"  k {k}, threads {threads}, {name}: {figures['mean_ms']:.3f} ms, "
                f"{figures['queries_per_second']:,.1f} queries/s, overlap {overlap:.3f}"
            )
        results.save()
