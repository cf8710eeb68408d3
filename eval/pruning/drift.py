"""What it costs to encode images with the offsets and scale of other ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.table import Table
from scipy.sparse.linalg import svds

from eval.progress_parts import part_of
from eval.pruning.caption_ranking import CaptionQueries
from indexer.drift import drift
from indexer.encoding.asked import asked_terms
from indexer.encoding.term_scores import ImageEncoder
from indexer.offsets import OFFSET_SAMPLE
from indexer.pruning import estimate_offsets, largest_kept, prune
from indexer.quantisation import Quantiser
from indexer.settings import USUAL
from sparta.captions.read import CaptionedPhoto
from sparta.features.store import FeatureStore
from sparta.metrics import Recall
from sparta.progress import Progress, no_progress

SHARES = (0.5, 0.25, 0.1, 0.05, 0.01)  # of the images, from which an index is built
DIRECTIONS = 3  # in which the images differ most, for builds that are unlike the rest
SHARD = 512  # images pruned at once


@dataclass(frozen=True)
class Build:
    """The images from which an index is built, before all others are added.

    Attributes:
        name: how they were chosen.
        share: of all images.
        rows: [n] which ones.
    """

    name: str
    share: float
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class DriftRow:
    """An index of all images, built from some of them.

    Attributes:
        build: how these were chosen.
        share: of all images.
        drift: from these to all, as `sparta info` shows it.
        recall: of the captions.
    """

    build: str
    share: float
    drift: float
    recall: Recall


@dataclass(frozen=True)
class DriftStudy:
    """Recall against drift.

    Attributes:
        images: searched.
        queries: captions.
        whole: recall of the index that is built from all images.
        rows: the others.
    """

    images: int
    queries: int
    whole: Recall
    rows: Sequence[DriftRow]

    def record(self) -> dict[str, Any]:
        """The figures for programs."""
        rows = [vars(row) | {"recall": row.recall._asdict()} for row in self.rows]
        return vars(self) | {"whole": self.whole._asdict(), "rows": rows}

    def table(self) -> Table:
        """The figures for a terminal."""
        title = f"{self.images:,} images, {self.queries:,} captions"
        table = Table("built from", "share", "drift", "R@1", "R@5", "R@10", title=title)
        table.add_row("all", "100 %", "0", *(f"{value:.1f}" for value in _figures(self.whole)))
        for row in self.rows:
            pairs = zip(_figures(row.recall), _figures(self.whole), strict=True)
            lost = (f"{mine - whole:+.2f}" for mine, whole in pairs)
            table.add_row(row.build, f"{100 * row.share:.0f} %", f"{row.drift:.2f}", *lost)
        return table


def _figures(found: Recall) -> tuple[float, float, float]:
    return found.at_1, found.at_5, found.at_10


@dataclass(frozen=True)
class Scores:
    """The term scores of N images, from which indexes are built in memory.

    Attributes:
        scores: [N, T] of the terms that an index may have.
        terms: [T] vocabulary ids.
        weights: [T] of the terms in the choice of those an image keeps, None for one.
    """

    scores: NDArray[np.float32]
    terms: NDArray[np.int64]
    weights: NDArray[np.float32] | None

    @classmethod
    def of(cls, encoder: ImageEncoder, progress: Progress = no_progress) -> Scores:
        """Encode all images: stage "encode"."""
        terms = np.flatnonzero(encoder.allowed("trained"))
        scores = np.empty((len(encoder.store), len(terms)), np.float32)
        done = 0
        for batch in encoder.batches(range(len(scores))):
            scores[done : done + len(batch.images)] = batch.scored.scores[:, terms]
            done += len(batch.images)
            progress("encode", done, len(scores))
        weights = asked_terms(encoder, "model", USUAL.asked_power).weights
        return cls(scores, terms, None if weights is None else weights[terms])

    @cached_property
    def every(self) -> NDArray[np.bool_]:
        """[T] that all terms are allowed."""
        return np.ones(len(self.terms), np.bool_)

    def impacts(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """[N, T] impacts of all images, with offsets and scale of some, as `sparta index` does."""
        if len(rows) > OFFSET_SAMPLE:
            rows = np.random.default_rng(0).choice(rows, OFFSET_SAMPLE, replace=False)
        sample = self.scores[np.sort(rows)]
        offset = estimate_offsets(sample, "mean")
        kept = self.every, USUAL.top_n, self.weights
        quantiser = Quantiser.fit(largest_kept(sample, offset, *kept), USUAL.bits)
        impacts = np.empty(self.scores.shape, np.uint8)
        for first in range(0, len(impacts), SHARD):
            own = slice(first, first + SHARD)
            pruned = prune(self.scores[own], offset, *kept)
            impacts[own] = quantiser.impacts(pruned) * (pruned > 0)
        return impacts

    def builds(self, seed: int = 0) -> Iterator[Build]:
        """Images drawn at random, and those at either end of the directions of most variance."""
        images = len(self.scores)
        random = np.random.default_rng(seed)
        for share in SHARES:
            count = max(1, int(share * images))
            yield Build("random", share, random.choice(images, count, replace=False))
        centred = self.scores - self.scores.mean(axis=0)
        directions, sizes, _ = svds(centred, k=DIRECTIONS, random_state=seed)
        for number, place in enumerate(np.argsort(-sizes), start=1):
            order = np.argsort(directions[:, place], kind="stable")
            for share in SHARES[:-1]:
                count = max(1, int(share * images))
                yield Build(f"direction {number}, one end", share, order[:count])
                yield Build(f"direction {number}, other end", share, order[-count:])


def measure_drift(
    store: FeatureStore,
    model: str | Path,
    captions: Sequence[CaptionedPhoto],
    *,
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> DriftStudy:
    """Build indexes from parts of the images, add the others, and search all.

    Args:
        store: of all images.
        model: folder or hub name.
        captions: of images of the store.
        batch_size: images per pass of the model.
        device: "auto" takes a GPU if there is one.
        progress: stages "encode", in images, and "search", in queries over all indexes.

    Raises:
        InputError: if the model cannot be used for the store.
    """
    encoder = ImageEncoder.open([store], [model], batch_size, device, "trained")
    photos = sorted(captions, key=lambda photo: photo.image_id)
    queries = CaptionQueries.of(encoder.tokenizer, photos, store.ids)
    scores = Scores.of(encoder, progress)
    whole = _recall(queries, scores.terms, scores.impacts(np.arange(len(store))))
    rows: list[DriftRow] = []
    builds = list(scores.builds())
    for number, build in enumerate(builds):
        impacts = scores.impacts(build.rows)
        moved = drift(impacts[build.rows].mean(axis=0), impacts.mean(axis=0))
        found = _recall(queries, scores.terms, impacts)
        rows.append(DriftRow(build.name, build.share, moved, found))
        count = len(queries.texts)
        part_of(number, len(builds), progress)("search", count, count)
    return DriftStudy(len(store), len(queries.texts), whole, rows)


def _recall(
    queries: CaptionQueries, terms: NDArray[np.int64], impacts: NDArray[np.uint8]
) -> Recall:
    weights = np.zeros((len(queries.terms), len(impacts)), np.float32)
    _, asked, held = np.intersect1d(queries.terms.numpy(), terms, return_indices=True)
    weights[asked] = impacts[:, held].T
    return queries.rank(torch.from_numpy(weights)).recall
