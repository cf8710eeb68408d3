"""Compares made images with those that they are made of, by what decides the time of a search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from eval.bench.collections.results import Collections, Figures
from eval.bench.query_latency.collections.corpus import CorpusRows
from eval.bench.query_latency.collections.enlarge import KINDS, enlarge
from eval.bench.query_latency.collections.impact_source import ImpactSource
from eval.bench.query_latency.collections.keep_top import keep_top
from eval.bench.query_latency.collections.queries import TermQuery
from indexer.columns.builder import build_columns
from indexer.columns.layout import Columns
from sparta.progress import Progress, no_progress

PROBES = 2_000  # images whose neighbours are looked for
BLOCKS = (256, 32, 8)  # images of a block whose bounds are measured
K = 10

Impacts = NDArray[np.unsignedinteger]


def measure_collections(
    source: ImpactSource,
    queries: Sequence[TermQuery],
    top_n: int | None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> Collections:
    """Figures of the given images, and of as many of each kind that are made of them.

    Args:
        source: the given images.
        queries: whose words and bounds are looked at.
        top_n: terms an image keeps, None for all.
        seed: of the images that are made.
        progress: stage "measure", in collections.
    """
    found = []
    real = keep_top(source.impacts, top_n)
    kinds: list[str] = ["given", *KINDS]
    for number, kind in enumerate(kinds):
        images = real if kind == "given" else _made(source, top_n, kind, seed)
        found.append(_figures(kind, images, real, source, queries))
        progress("measure", number + 1, len(kinds))
    return Collections(len(real), top_n, found)


def _made(source: ImpactSource, top_n: int | None, kind: str, seed: int) -> Impacts:
    """As many images of a kind [N, A] as there are given ones."""
    (chosen,) = (known for known in KINDS if known == kind)
    column_of = np.zeros(len(source.vocabulary), np.int64)
    column_of[source.terms] = np.arange(len(source.terms))
    made = np.zeros_like(source.impacts)
    first = 0
    for rows in enlarge(source, len(made), top_n, chosen, seed):
        images = first + np.repeat(np.arange(len(rows)), np.diff(rows.starts))
        made[images, column_of[rows.terms]] = rows.impacts
        first += len(rows)
    return made


def _figures(
    kind: str, images: Impacts, real: Impacts, source: ImpactSource, queries: Sequence[TermQuery]
) -> Figures:
    frequencies, expected = ((some > 0).mean(axis=0) for some in (images, real))
    places = {int(term): place for place, term in enumerate(source.terms)}
    pairs = _pairs(queries, places)
    own, theirs = (_correlations(some, pairs) for some in (images, real))
    near = _neighbours(images)
    order = _topical_order(images, source)
    reached = [_bounds(images[order], queries, places, size) for size in BLOCKS]
    return Figures(
        kind=kind,
        terms=float(np.count_nonzero(images) / len(images)),
        frequency_error=float(np.abs(frequencies - expected).mean()),
        correlation=float(own.mean()) if len(own) else 0.0,
        correlation_r=_correlation(own, theirs),
        nearest=float(near[:, -1].mean()),
        tenth=float(near[:, -K:][:, 0].mean()),
        tightness=[tightness for tightness, _ in reached],
        passing=[passing for _, passing in reached],
    )


def _pairs(queries: Sequence[TermQuery], places: dict[int, int]) -> NDArray[np.int64]:
    """The columns of two terms [P, 2] for each two that some query has."""
    found = set()
    for query in queries:
        columns = sorted(places[term] for term in query.terms if term in places)
        found |= set(combinations(columns, 2))
    return np.array(sorted(found), np.int64).reshape(-1, 2)


def _correlations(images: Impacts, pairs: NDArray[np.int64]) -> NDArray[np.float64]:
    """Pearson's correlation of the impacts of each pair of terms, 0 for one that is constant."""
    used, places = np.unique(pairs, return_inverse=True)
    scaled = images[:, used].astype(np.float32)
    scaled -= scaled.mean(axis=0)
    scaled /= np.maximum(scaled.std(axis=0), 1e-6)
    among = scaled.T @ scaled / len(scaled)
    first, second = places.reshape(-1, 2).T
    return among[first, second].astype(np.float64)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Pearson's, 0 if one does not vary."""
    varies = len(first) > 1 and first.std() > 0 and second.std() > 0
    return float(np.corrcoef(first, second)[0, 1]) if varies else 0.0


def _neighbours(images: Impacts) -> NDArray[np.float32]:
    """Cosines of some images and all others, rising [images, N]."""
    scaled = images.astype(np.float32)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1e-6)
    cosines = scaled[:PROBES] @ scaled.T
    np.fill_diagonal(cosines, -1)
    return np.sort(cosines, axis=1)


def _topical_order(images: Impacts, source: ImpactSource) -> NDArray[np.int32]:
    """The images as columns have them."""
    rows, places = np.nonzero(images)
    starts = np.searchsorted(rows, np.arange(len(images) + 1))
    chunk = CorpusRows(starts, source.terms[places], images[rows, places].astype(np.int32))
    with TemporaryDirectory() as folder:
        columns = Path(folder) / "columns"
        build_columns(columns, [chunk], len(source.vocabulary), source.bits)
        order: NDArray[np.int32] = np.array(Columns.map(columns).order)
    return order


def _bounds(
    ordered: Impacts, queries: Sequence[TermQuery], places: dict[int, int], size: int
) -> tuple[float, float]:
    """How tight the bounds over blocks are, and the share of blocks that reach the k-th score.

    Tightness is the largest score of a block divided by its bound, the mean over blocks and
    queries.
    """
    whole = np.pad(ordered, ((0, -len(ordered) % size), (0, 0)))
    maxima = whole.reshape(-1, size, whole.shape[1]).max(axis=1)
    tightness, passing = [], []
    for query in queries:
        known = [term for term in query.terms if term in places]
        if not known:
            continue
        columns = [places[term] for term in known]
        counts = np.array([query.terms[term] for term in known], np.float32)
        bounds = maxima[:, columns] @ counts
        scores = whole[:, columns] @ counts
        largest = scores.reshape(-1, size).max(axis=1)
        tightness.append((largest[bounds > 0] / bounds[bounds > 0]).mean())
        passing.append((bounds >= np.sort(scores)[-K:][0]).mean())
    return float(np.mean(tightness)), float(np.mean(passing))
