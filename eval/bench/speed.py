"""`sparta bench speed`: engines side by side over growing collections, asked the same queries."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from eval.bench.collections import CollectionKind, ImpactSource, QuerySet, enlarge, measure_recall
from eval.bench.corpus import Corpus, TermQuery
from eval.bench.engines import DENSE, ENGINES, SPARSE, Engine, find
from eval.bench.tables import Cell, Results
from eval.bench.timing import CHECKED, Asked, Pace, time_in_turns
from eval.bench.truth import GroundTruth
from eval.bench.vectors import (
    CLUSTERED,
    DenseSource,
    Vectors,
    clustered,
    enlarge_vectors,
    read_dense,
)
from sparta.files import check_room
from sparta.progress import Notice, Progress, no_notice, no_progress

TOP_N_IMAGES = 200_000  # other top-n than the first are timed at the largest size up to this
BUILT = "built.json"

# What a collection takes, measured with two cores of an AMD EPYC: seconds for making a posting, and
# for building the index of a posting or a vector. They make the estimate, no result.
MAKING = {"copies": 4e-8, "mixed": 2.5e-7, "drawn": 4e-7}
BUILDING = {"lucene": 3e-7, "columns": 1.5e-7, "bm25s": 1e-7, "faiss-hnsw": 1e-3}
CHECKING = 2e-8  # for checking a posting
BYTES = {"lucene": 5, "columns": 4, "bm25s": 8}  # a posting
BYTES_A_POSTING = 3  # of a collection on disk


# ---- what to measure ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Choices:
    """What the user asks for."""

    kind: CollectionKind  # of collection
    sizes: Sequence[int]  # numbers of images
    # Terms an image keeps, None for all. All sizes are timed at the first, and one size at the
    # others.
    top_n: Sequence[int | None]
    ks: Sequence[int]  # hits per query
    threads: Sequence[int]  # that search at once
    engines: Sequence[str]  # names
    dense: Sequence[str]  # names of dense parts of the index, or "clustered"
    pace: Pace  # how long to measure
    work: Path  # folder for collections and indexes while they are needed


@dataclass(frozen=True)
class SpeedPlan:
    """What is measured."""

    choices: Choices  # the user's; a top-n that keeps all terms of all images is None
    source: ImpactSource  # images that collections are made of
    vectors: Sequence[DenseSource]  # that collections are made of
    asked: QuerySet  # queries to time, and captions to measure recall by
    engines: dict[str, type[Engine[Any]]]  # to time, by name

    @property
    def collections(self) -> list[tuple[int, int | None]]:
        """Numbers of images and top-n: all sizes at the first top-n, the other top-n at one."""
        first, *others = self.choices.top_n
        sizes = self.choices.sizes
        at = max((size for size in sizes if size <= TOP_N_IMAGES), default=min(sizes))
        return [*((size, first) for size in sizes), *((at, top_n) for top_n in others)]

    def seconds(self, images: int, top_n: int | None) -> float:
        """About how long a collection takes."""
        postings, choices = images * self._terms(top_n), self.choices
        engines = [name for name in self.engines if name in SPARSE or top_n == choices.top_n[0]]
        cells = len(engines) * len(choices.ks) * len(choices.threads)
        building = sum(
            BUILDING.get(name, 0) * (postings if name in SPARSE else images) for name in engines
        )
        making = (MAKING[choices.kind] + CHECKING) * postings
        return 2 + making + building + 1.3 * cells * choices.pace.seconds

    def bytes(self, images: int, top_n: int | None) -> int:
        """About what a collection and its indexes take on disk."""
        postings, names = images * self._terms(top_n), set[str](self.engines)
        each = BYTES_A_POSTING + sum(size for name, size in BYTES.items() if name in names)
        numbers = sum(int(one.images.shape[1]) for one in self.vectors)
        graph = numbers if "faiss-hnsw" in names else 0
        return postings * each + 4 * images * (numbers + graph)

    def _terms(self, top_n: int | None) -> int:
        return min(top_n or self.source.most_terms, self.source.most_terms)

    def lines(self) -> list[str]:
        """What will be done, in words."""
        choices, collections = self.choices, self.collections
        sizes = ", ".join(f"{size:,}" for size in choices.sizes)
        texts = [
            f"{choices.kind.capitalize()} of {len(self.source.ids):,} photos: {sizes} images of "
            f"{named(choices.top_n[0])} terms"
        ]
        if len(choices.top_n) > 1:
            others = ", ".join(named(top_n) for top_n in choices.top_n[1:])
            texts[0] += f"; {collections[-1][0]:,} images of {others} terms"
        minutes = sum(self.seconds(*one) for one in collections) / 60
        space = max(self.bytes(*one) for one in collections) / 1e9
        texts.append(f"Engines: {', '.join(self.engines)}")
        texts.append(
            f"About {max(1, round(minutes)):,} min, and at most {space:.1f} GB in {choices.work}, "
            "which is emptied"
        )
        return texts


def make_plan(
    index: Path,
    source: ImpactSource,
    asked: QuerySet,
    choices: Choices,
    results: Results,
    notice: Notice = no_notice,
) -> SpeedPlan:
    """Check the choices, embed the queries, and note in the results what is used.

    Args:
        index: with the dense parts that are asked for.
        source: images of the index.
        asked: queries and captions.
        choices: what to measure.
        results: of earlier runs.
        notice: gets a line for each dense part.

    Raises:
        InputError: if an engine or a dense part is unknown, or the results are of other images.
    """
    engines, left_out = find(choices.engines)
    top_n = [n if n is None or n < source.most_terms else None for n in choices.top_n]
    choices = replace(choices, top_n=list(dict.fromkeys(top_n)))
    vectors = _vectors(index, choices.dense, asked.queries, set(engines), notice)
    results.engines |= {
        name: {"settings": engine.settings, "promise": engine.promise.value}
        for name, engine in engines.items()
    }
    results.missing |= {f"engine {name}": why for name, why in left_out.items()}
    if others := [name for name in ENGINES if name not in choices.engines]:
        results.missing["other engines"] = f"--engine {','.join(others)}"
    if engines.keys() & DENSE.keys() and all(one.name == CLUSTERED for one in vectors):
        results.missing["a dense model's vectors, and the time of encoding a text"] = (
            "--dense NAME, after sparta add --dense"
        )
    kept = source.about["top_n"]
    if kept != "all":
        what = f"more than the {kept} terms an image that the index keeps"
        results.missing[what] = "--features DIR, its feature store, and --model"
    if not asked.judged:
        results.missing["recall by top-n"] = "--captions FILE, of photos in the index"
    results.note("images", source.about)
    results.note("queries", {"count": len(asked.queries), "from": asked.origin})
    for one in vectors:
        results.note(one.name, one.about)
        if one.encode_milliseconds:
            results.encoders[one.name] = {"text": one.about["text"], **one.encode_milliseconds}
    return SpeedPlan(choices, source, vectors, asked, engines)


def named(top_n: int | None) -> str:
    """A top-n as it is shown."""
    return "all" if top_n is None else f"{top_n:,}"


def _vectors(
    index: Path,
    names: Sequence[str],
    queries: Sequence[TermQuery],
    engines: set[str],
    notice: Notice,
) -> list[DenseSource]:
    found = []
    for name in names:
        if name == CLUSTERED:
            found += [clustered(len(queries))] if engines & set(DENSE) else []
        else:
            notice(f"Embedding the queries with {name}")
            found.append(read_dense(index, name, queries))
    return found


# ---- collection by collection, engine by engine --------------------------------------------------


@dataclass
class Member:
    """One engine over one collection."""

    cell: Cell  # of its figures, but for k and the number of threads
    engine: Engine[Any]  # itself
    truth: GroundTruth  # the right answers
    # What is put down beside every figure of it.
    about: dict[str, Any] = field(default_factory=dict)

    def at(self, k: int, threads: int) -> Cell:
        """The cell of its figures."""
        return self.cell._replace(k=k, threads=threads)


def measure_speed(
    plan: SpeedPlan,
    results: Results,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> None:
    """Measure the cells missing from the results, and save them collection by collection.

    A collection and its indexes are made
    when a cell needs them, and deleted. An interrupted run goes on with those that were whole.

    Args:
        plan: what to measure.
        results: grows.
        progress: of the stage "rounds", in rounds of a cell.
        notice: gets a line for every collection, index and cell.

    Raises:
        InputError: if the disk has too little room.
        WrongAnswer: if an engine that promises right answers gives others.
    """
    choices, start = plan.choices, time.perf_counter()
    due = [(one, wanted) for one in plan.collections if (wanted := _wanted(plan, results, *one))]
    if due:
        check_room(choices.work, max(plan.bytes(*one) for one, _ in due))
    _add_recall(plan, results, notice)
    expected = [plan.seconds(*one) for one, _ in due]
    for number, ((images, top_n), wanted) in enumerate(due):
        done, left = sum(expected[:number]), sum(expected[number:])
        # What was measured corrects the estimate, as soon as it is worth more.
        ratio = (time.perf_counter() - start) / done if done > 30 else 1
        left_text = f"{max(1, round(ratio * left / 60)):,} min left"
        notice(f"{images:,} images, {choices.kind}, top-n {named(top_n)}: about {left_text}")
        folder = choices.work / f"{choices.kind}-{images}-{top_n or 'all'}"
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            members = list(_members(plan, folder, top_n, wanted))
            for member in members:
                stack.enter_context(_opened(member))
                notice(f"  {member.cell.engine}: {_built(member)}")
            _time(plan, results, members, progress, notice)
        del members  # some hundred megabytes of right answers
        shutil.rmtree(folder)
    if choices.work.is_dir() and not any(choices.work.iterdir()):
        choices.work.rmdir()


def _add_recall(plan: SpeedPlan, results: Results, notice: Notice) -> None:
    if not plan.asked.judged:
        return
    photos = len({place for _, place in plan.asked.judged})
    about = {"queries": len(plan.asked.judged), "photos": photos, "images": len(plan.source.ids)}
    have = {one["top_n"] for one in results.recall}
    for top_n in plan.choices.top_n:
        if (top_n or "all") not in have:
            found = measure_recall(plan.source, top_n, plan.asked.judged)
            shares = {"r1": found.at_1, "r5": found.at_5, "r10": found.at_10}
            results.recall.append({"top_n": top_n or "all", **shares, **about})
            notice(f"recall at 1, top-n {named(top_n)}: {found.at_1:.1f} %")


def _wanted(
    plan: SpeedPlan, results: Results, images: int, top_n: int | None
) -> dict[DenseSource | None, list[Cell]]:
    """Vectors, None for impacts → engines that some cell of a collection is missing of."""
    groups: list[tuple[DenseSource | None, Mapping[str, type[Engine[Any]]]]] = [(None, SPARSE)]
    if top_n == plan.choices.top_n[0]:
        groups += [(one, DENSE) for one in plan.vectors]
    wanted = {}
    for vectors, group in groups:
        label, n = (vectors.name, None) if vectors else (None, top_n or "all")
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
    asked = plan.asked.queries[:CHECKED]
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
            name = f"{cell.vectors or 'impacts'}-{cell.engine}"
            engine = plan.engines[cell.engine](data, folder / name)
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


def _time(
    plan: SpeedPlan,
    results: Results,
    members: Sequence[Member],
    progress: Progress,
    notice: Notice,
) -> None:
    """Time all cells of a collection together."""
    pairs = product(members, plan.choices.ks, plan.choices.threads)
    due = {
        member.at(k, threads): (member, Asked(member.engine, k, threads))
        for member, k, threads in pairs
        if not results.has(member.at(k, threads))
    }
    cells = {cell: asked for cell, (_, asked) in due.items()}
    timed = time_in_turns(cells, plan.asked.queries, plan.choices.pace, progress)
    for cell, (member, asked) in due.items():
        answers, figures = timed[cell].answers, timed[cell].figures()
        overlap = member.truth.check(cell.engine, member.engine.promise, answers, asked.k)
        checked = {"checked": len(answers), "overlap_at_10": overlap}
        results.add(cell, figures | checked | member.about)
        notice(
            f"  {cell.engine}, k {cell.k}, threads {cell.threads}: {figures['ms']:.3f} ms, "
            f"{figures['queries_per_second']:,.1f} queries/s, overlap {overlap:.3f}"
        )
    results.save()
