"""`sparta bench speed`: engines side by side over growing collections, asked the same queries."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from eval.bench.collections import Corpus, ImpactSource, Kind, enlarge
from eval.bench.engines import DENSE, SPARSE, Answer, AnyEngine, GroundTruth, find
from eval.bench.queries import QuerySet, TermQuery, measure_recall
from eval.bench.tables import Cell, Results
from eval.bench.vectors import (
    CLUSTERED,
    RERANKED,
    DenseSource,
    clustered,
    enlarge_vectors,
    milliseconds,
    read_dense,
    read_reranked,
)
from sparta.files import check_room
from sparta.json_values import Json
from sparta.progress import Notice, Progress, no_notice, no_progress

TOP_N_IMAGES = 200_000  # other top-n than the first are timed at the largest size up to this
# Estimates, measured with two cores of an AMD EPYC: seconds for making, checking and indexing a
# posting, and for adding a vector to a graph.
POSTING_SECONDS, GRAPH_SECONDS = 8e-7, 1e-3
CORPUS_BYTES = 3  # of a posting of a collection on disk
BYTES = {"lucene": 5, "columns": 4, "bm25s": 8}  # of a posting in an index
SHARES = "r1", "r5", "r10"  # of a recall in the results
LEAST = 10  # queries of a warm-up, however long they take
CHECKED = 100  # answers of a cell that are compared with exact ones

Name = TypeVar("Name")
Round = list[list[float]]  # seconds of each query, by thread


# ---- timing in turns ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Pace:
    """How long a cell is measured."""

    seconds: float = 5  # timed, and at most as many to warm up
    warm_up: int = 500  # queries before the first timed one, at most, but ten at least
    rounds: int = 10  # repetitions that the timed seconds are divided into


class Asked(NamedTuple):
    """What a cell times: an open engine, the hits of an answer, and threads that ask at once."""

    engine: AnyEngine
    k: int
    threads: int


@dataclass(frozen=True)
class Timed:
    """One cell's times."""

    threads: int  # that asked at once
    warm_up: int  # queries before the first timed one
    answers: list[Answer]  # to the first of the queries
    rounds: list[Round]  # in order

    def figures(self) -> dict[str, float | int]:
        """Queries per second and milliseconds a query, by one clock: their product is threads.

        Both are the median of the rounds; "low_ms" and "high_ms" are their quartiles. Percentiles
        are of all timed queries.
        """
        rates = [sum(len(own) / sum(own) for own in one) for one in self.rounds]
        latencies = [seconds for one in self.rounds for own in one for seconds in own]
        low, rate, high = (float(one) for one in np.percentile(rates, (25, 50, 75)))
        tails = {f"p{p}_ms": 1000 * float(np.percentile(latencies, p)) for p in (50, 95, 99)}
        return {
            "queries": len(latencies),
            "seconds": sum(max(sum(own) for own in one) for one in self.rounds),
            "warm_up": self.warm_up,
            "queries_per_second": rate,
            "ms": 1000 * self.threads / rate,
            "low_ms": 1000 * self.threads / high,
            "high_ms": 1000 * self.threads / low,
            **tails,
        }

    def with_text(self, encode_seconds: NDArray[np.float64]) -> dict[str, float]:
        """Milliseconds of a query from its text on, where `encode_seconds` [Q] of texts are known.

        Every search gets the encoding of a text drawn at random: neither depends on the other.
        """
        searches = np.array([one for part in self.rounds for own in part for one in own])
        drawn = np.random.default_rng(0).choice(encode_seconds, len(searches))
        return {f"text_{name}": ms for name, ms in milliseconds(searches + drawn).items()}


def time_in_turns(
    cells: Mapping[Name, Asked],
    queries: Sequence[TermQuery],
    pace: Pace,
    progress: Progress = no_progress,
) -> dict[Name, Timed]:
    """Time cells of open engines in rounds, taking turns: A B C, B C A, C A B.

    Other load on the machine then affects all cells alike, and none profits from its own data in
    the processor's cache. Every cell is asked the same queries in the same order: all of them
    shuffled, then all of them shuffled again, and so on. Each thread has one core. Reports progress
    of the stage "rounds", in rounds of a cell.
    """
    names = list(cells)
    streams = {
        name: [_shuffled(queries, thread) for thread in range(cell.threads)]
        for name, cell in cells.items()
    }
    found: dict[Name, list[Round]] = {name: [] for name in names}
    with (
        threadpool_limits(1),
        ThreadPoolExecutor(initializer=threadpool_limits, initargs=(1,)) as pool,
    ):
        _read_ahead(cells)
        warmed = {name: _warm_up(cell, queries, pace) for name, cell in cells.items()}
        # Where the indexes fill the memory, warming up one may have pushed out another's files.
        _read_ahead(cells)
        for number in range(pace.rounds):
            first = number % len(names)
            for place, name in enumerate(names[first:] + names[:first], 1):
                seconds = pace.seconds / pace.rounds
                found[name].append(_round(pool, cells[name], streams[name], seconds))
                progress("rounds", number * len(names) + place, pace.rounds * len(names))
    return {name: Timed(cells[name].threads, *warmed[name], found[name]) for name in names}


def _read_ahead(cells: Mapping[Name, Asked]) -> None:
    for engine in {id(cell.engine): cell.engine for cell in cells.values()}.values():
        engine.read_ahead()


def _shuffled(queries: Sequence[TermQuery], seed: int) -> Iterator[TermQuery]:
    rng = np.random.default_rng(seed)
    while True:
        for place in rng.permutation(len(queries)):
            yield queries[place]


def _warm_up(cell: Asked, queries: Sequence[TermQuery], pace: Pace) -> tuple[int, list[Answer]]:
    """How many queries were asked, and the answers to the first."""
    answers: list[Answer] = []
    asked, start = 0, time.perf_counter()
    while asked < LEAST or (asked < pace.warm_up and time.perf_counter() - start < pace.seconds):
        answer = cell.engine.search(queries[asked % len(queries)], cell.k)
        if asked < min(CHECKED, len(queries)):
            answers.append(answer)
        asked += 1
    return asked, answers


def _round(
    pool: ThreadPoolExecutor, cell: Asked, streams: Sequence[Iterator[TermQuery]], seconds: float
) -> Round:
    def ask(stream: Iterator[TermQuery]) -> list[float]:
        latencies: list[float] = []
        now = start = time.perf_counter()
        while now - start < seconds or not latencies:
            cell.engine.search(next(stream), cell.k)
            then = time.perf_counter()
            latencies.append(then - now)  # no time falls between two queries
            now = then
        return latencies

    if cell.threads == 1:
        return [ask(streams[0])]
    return [one.result() for one in [pool.submit(ask, stream) for stream in streams]]


# ---- what to measure ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Choices:
    """What the user asks for."""

    kind: Kind  # of collection
    sizes: Sequence[int]  # numbers of images
    # Terms an image keeps, None for all. All sizes are timed at the first, and one size at the
    # others.
    top_n: Sequence[int | None]
    ks: Sequence[int]  # hits per query
    threads: Sequence[int]  # that search at once
    engines: Sequence[str]  # names
    dense: Sequence[str]  # names of dense parts of the index, "rerank" or "clustered"
    pace: Pace  # how long to measure
    work: Path  # folder for collections and indexes while they are needed


@dataclass(frozen=True)
class SpeedPlan:
    """What is measured."""

    choices: Choices  # the user's; a top-n that keeps all terms of all images is None
    source: ImpactSource  # images that collections are made of
    vectors: Sequence[DenseSource]  # that collections are made of
    asked: QuerySet  # queries to time, and captions to measure recall by
    engines: dict[str, type[AnyEngine]]  # to time, by name

    @property
    def collections(self) -> list[tuple[int, int | None]]:
        """Numbers of images and top-n: all sizes at the first top-n, the other top-n at one."""
        first, *others = self.choices.top_n
        sizes = self.choices.sizes
        at = max((size for size in sizes if size <= TOP_N_IMAGES), default=min(sizes))
        return [*((size, first) for size in sizes), *((at, top_n) for top_n in others)]

    def seconds(self, images: int, top_n: int | None) -> float:
        """About how long a collection takes."""
        choices = self.choices
        engines = [name for name in self.engines if name in SPARSE or top_n == choices.top_n[0]]
        cells = len(engines) * len(choices.ks) * len(choices.threads)
        graph = images * GRAPH_SECONDS * ("faiss-hnsw" in engines)
        making = images * self._terms(top_n) * POSTING_SECONDS
        return 2 + making + graph + 1.3 * cells * choices.pace.seconds

    def bytes(self, images: int, top_n: int | None) -> int:
        """About what a collection and its indexes take on disk."""
        each = CORPUS_BYTES + sum(BYTES.get(name, 0) for name in self.engines)
        numbers = sum(int(one.images.shape[1]) for one in self.vectors)
        graph = numbers * ("faiss-hnsw" in self.engines)
        return images * (self._terms(top_n) * each + 4 * (numbers + graph))

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
    """Check the choices, embed the queries, and note in the results what is used."""
    engines, left_out = find(choices.engines)
    top_n = [n if n is None or n < source.most_terms else None for n in choices.top_n]
    choices = replace(choices, top_n=list(dict.fromkeys(top_n)))
    vectors = []
    for name in choices.dense:
        if name != CLUSTERED:
            notice(f"Embedding the queries with {name}")
        if name == RERANKED:
            vectors.append(read_reranked(index, source, choices.top_n[0], asked.queries))
        elif name != CLUSTERED:
            vectors.append(read_dense(index, source, name, asked.queries))
        elif engines.keys() & DENSE:
            vectors.append(clustered(len(asked.queries)))
    results.engines |= {
        name: {"settings": engine.settings, "promise": engine.promise.value}
        for name, engine in engines.items()
    }
    for name, why in left_out.items():
        notice(f"Left out: engine {name}, {why}")
    results.note("images", source.about)
    results.note("queries", {"count": len(asked.queries), "from": asked.origin})
    for one in vectors:
        results.note(one.name, one.about)
        if times := milliseconds(one.encode_seconds):
            text = {"text": one.about["text"], "kept_at_10": one.kept}
            results.encoders[one.name] = text | times
    return SpeedPlan(choices, source, vectors, asked, engines)


def named(top_n: int | None) -> str:
    """A top-n as it is shown."""
    return "all" if top_n is None else f"{top_n:,}"


# ---- collection by collection, engine by engine --------------------------------------------------


@dataclass(frozen=True)
class Member:
    """One engine over one collection."""

    cell: Cell  # of its figures, but for k and the number of threads
    engine: AnyEngine  # itself
    truth: GroundTruth  # the right answers
    about: Json  # postings of the collection, None for vectors; what building the engine took


def measure_speed(
    plan: SpeedPlan,
    results: Results,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> None:
    """Measure the cells missing from the results, and save them collection by collection.

    A collection and its indexes are made when a cell needs them, and deleted. An interrupted run
    goes on with the first collection that lacks a cell. Reports progress of the stage "rounds", in
    rounds of a cell.

    Raises:
        WrongAnswer: if an engine that promises right answers gives others.
    """
    choices = plan.choices
    due = [one for one in plan.collections if list(_wanted(plan, results, *one))]
    if due:
        check_room(choices.work, max(plan.bytes(*one) for one in due))
    if plan.asked.judged:
        _add_recall(plan, results, notice)
    for number, (images, top_n) in enumerate(due):
        left = max(1, round(sum(plan.seconds(*one) for one in due[number:]) / 60))
        about = f"{images:,} images, {choices.kind}, top-n {named(top_n)}"
        notice(f"{about}: about {left:,} min left")
        folder = choices.work / f"{choices.kind}-{images}-{top_n or 'all'}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            members = []  # with some hundred megabytes of right answers
            for member in list(_members(plan, results, folder, images, top_n)):
                members.append(_build(member, notice))
                stack.callback(member.engine.close)
            _time(plan, results, members, progress, notice)
        del members, member
        shutil.rmtree(folder)
    if choices.work.is_dir() and not any(choices.work.iterdir()):
        choices.work.rmdir()


def _add_recall(plan: SpeedPlan, results: Results, notice: Notice) -> None:
    have = {one["top_n"] for one in results.recall}
    dense = {one.name: one for one in plan.vectors if one.name != CLUSTERED}
    timed = {one.text: one for one in plan.asked.queries}
    for key in [*(top_n or "all" for top_n in plan.choices.top_n), *dense]:
        if key in have:
            continue
        judged = plan.asked.judged
        if key in dense:  # which embedded the timed captions
            judged = [(timed[one.text], at) for one, at in judged if one.text in timed]
            found = dense[key].recall(judged)
        else:
            found = measure_recall(plan.source, key if isinstance(key, int) else None, judged)
        photos, shares = len({place for _, place in judged}), dict(zip(SHARES, found, strict=False))
        about = {"queries": len(judged), "photos": photos, "images": len(plan.source.ids)}
        results.recall.append({"top_n": key, **shares, **about})
        notice(f"recall at 1, {key}: {found.at_1:.1f} %")


def _wanted(
    plan: SpeedPlan, results: Results, images: int, top_n: int | None
) -> Iterator[tuple[DenseSource | None, list[Cell]]]:
    """Vectors, None for impacts, and the engines that lack a cell of a collection of them."""
    pairs = list(product(plan.choices.ks, plan.choices.threads))
    dense = plan.vectors if top_n == plan.choices.top_n[0] else ()
    for vectors in (None, *dense):
        label, n = (vectors.name, None) if vectors else (None, top_n or "all")
        names = [name for name in plan.engines if name in (DENSE if vectors else SPARSE)]
        cells = [Cell(plan.choices.kind, label, name, images, n, 0, 0) for name in names]
        due = [
            cell
            for cell in cells
            if not all(results.has(cell._replace(k=k, threads=threads)) for k, threads in pairs)
        ]
        if due:
            yield vectors, due


def _members(
    plan: SpeedPlan, results: Results, folder: Path, images: int, top_n: int | None
) -> Iterator[Member]:
    """Make the collections that cells are due for, and the engines over them."""
    source, kind, asked = plan.source, plan.choices.kind, plan.asked.queries[:CHECKED]
    for vectors, cells in _wanted(plan, results, images, top_n):
        postings = None
        if vectors is None:
            rows = enlarge(source, images, top_n, kind)
            data: Any = Corpus.write(folder / "corpus", source.vocabulary, source.bits, rows)
            truth, postings = GroundTruth.of_impacts(data, asked), data.postings
        else:
            data = enlarge_vectors(vectors, images, kind, folder / f"{vectors.name}.npy")
            truth = GroundTruth.of_vectors(data, asked)
        for cell in cells:
            engine = plan.engines[cell.engine](
                data, folder / f"{cell.vectors or 'impacts'}-{cell.engine}"
            )
            yield Member(cell, engine, truth, {"postings": postings})


def _build(member: Member, notice: Notice) -> Member:
    """Build and open an engine, and note what it took."""
    engine = member.engine
    engine.folder.mkdir()
    start = time.perf_counter()
    engine.build()
    seconds = time.perf_counter() - start
    size = sum(path.stat().st_size for path in engine.folder.rglob("*") if path.is_file())
    engine.open()
    memory = engine.memory_bytes()
    notice(
        f"  {member.cell.engine}: built in {seconds:,.1f} s, {size / 1e6:,.1f} MB, "
        f"{memory / 1e6:,.1f} MB in memory"
    )
    figures = {"build_seconds": seconds, "index_bytes": size, "memory_bytes": memory}
    return replace(member, about=member.about | figures)


def _time(
    plan: SpeedPlan,
    results: Results,
    members: Sequence[Member],
    progress: Progress,
    notice: Notice,
) -> None:
    """Time all cells of a collection together."""
    due = {
        cell: member
        for member, k, threads in product(members, plan.choices.ks, plan.choices.threads)
        if not results.has(cell := member.cell._replace(k=k, threads=threads))
    }
    asked = {cell: Asked(one.engine, cell.k, cell.threads) for cell, one in due.items()}
    timed = time_in_turns(asked, plan.asked.queries, plan.choices.pace, progress)
    encode_seconds = {one.name: one.encode_seconds for one in plan.vectors}
    for cell, member in due.items():
        answers, figures = timed[cell].answers, timed[cell].figures()
        if cell.vectors and len(texts := encode_seconds[cell.vectors]):
            figures |= timed[cell].with_text(texts)
        overlap = member.truth.check(cell.engine, member.engine.promise, answers, cell.k)
        checked = {"checked": len(answers), "overlap_at_10": overlap}
        results.add(cell, figures | checked | member.about)
        notice(
            f"  {cell.engine}, k {cell.k}, threads {cell.threads}: {figures['ms']:.3f} ms, "
            f"{figures['queries_per_second']:,.1f} queries/s, overlap {overlap:.3f}"
        )
    results.save()
