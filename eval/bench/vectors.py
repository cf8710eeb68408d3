"""Vectors of dense models for images and queries, enlarged as impacts are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from eval.bench.collections import CHUNK, NOISE, ImpactSource, Kind
from eval.bench.queries import TermQuery, share_kept
from indexer.engines.dense import DensePart
from indexer.grounding import vector_of
from indexer.manifest import TEXT_TOWER, Manifest, index_folders
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.features.record import BFLOAT16, FLOAT32
from sparta.inference import computes_bfloat16, read_entry
from sparta.json_values import Json
from sparta.metrics import Recall, ranks_by_block, recall

CLUSTERED, DIMENSION = "clustered", 1024  # the dimension of the papers' dense models
RERANKED = "rerank"  # the vectors that an index keeps for re-ranking, and its text tower
CENTRES, IMAGES = 500, 5_000
SPREAD = 0.7  # length of what an image adds to its cluster's centre, itself of length 1
UNTIMED = 20  # texts that warm an encoder up


@dataclass(frozen=True, eq=False)
class DenseSource:
    """Some images' vectors, of length 1, and those of the queries."""

    name: str  # the index's dense part, "rerank" or "clustered"
    images: NDArray[np.float32]  # [N, D] float32
    queries: NDArray[np.float32]  # [Q, D] float32
    # [Q] that embedding the text of each query took, one at a time; empty for synthetic vectors.
    encode_seconds: NDArray[np.float64]
    about: Json  # their origin, for the results
    # What `share_kept` says, if the vectors are of the photos that impacts are of.
    kept: float | None = None

    def recall(self, judged: Sequence[tuple[TermQuery, int]]) -> Recall:
        """Recall of queries, each with the place of its image, by a full scan."""
        rows, places = [one.number for one, _ in judged], [[place] for _, place in judged]

        def block(part: slice) -> torch.Tensor:
            return torch.from_numpy(self.queries[rows[part]] @ self.images.T)

        return recall(ranks_by_block(block, len(self.images), places, ties="by_id"))


@dataclass(frozen=True)
class Vectors:
    """Vectors of a collection on disk."""

    path: Path  # npy file, [N, D] float32
    queries: NDArray[np.float32]  # [Q, D] float32

    def open(self) -> NDArray[np.float32]:
        """The vectors, memory-mapped."""
        mapped: NDArray[np.float32] = np.load(self.path, mmap_mode="r")
        return mapped

    def chunks(self, size: int = 10_000) -> Iterator[NDArray[np.float32]]:
        """The vectors [B, D], some images at a time, in memory."""
        vectors = self.open()
        for start in range(0, len(vectors), size):
            yield np.array(vectors[start : start + size])


def milliseconds(seconds: NDArray[np.float64]) -> dict[str, float]:
    """Mean and percentiles; nothing of no times."""
    if not len(seconds):
        return {}
    tails = {f"p{p}_ms": 1000 * float(np.percentile(seconds, p)) for p in (50, 95)}
    return {"ms": 1000 * float(seconds.mean()), **tails}


def clustered(queries: int) -> DenseSource:
    """Vectors around 500 random centres in 1024 dimensions; queries are drawn as images are.

    Exact search takes as long for these as for any others; what a graph or an inverted file finds
    and how fast depends on the vectors, so that theirs say little about those of a model.
    """
    rng = np.random.default_rng(0)
    centres = _unit(rng.standard_normal((CENTRES, DIMENSION), dtype=np.float32))

    def draw(count: int) -> NDArray[np.float32]:
        own = centres[rng.integers(CENTRES, size=count)]
        return _unit(own + SPREAD * _noise(rng, own.shape))

    about: Json = {"dimension": DIMENSION, "centres": CENTRES}
    return DenseSource(CLUSTERED, draw(IMAGES), draw(queries), np.empty(0), about)


def read_dense(
    index: Path, source: ImpactSource, name: str, queries: Sequence[TermQuery]
) -> DenseSource:
    """The source's photos in a dense part of an index, and queries embedded on one core."""
    part, snapshot = DensePart(index, name, Manifest.open(index)), Snapshot.open(index)
    if part.manifest.views > 1:
        views = f"it has {part.manifest.views} vectors an image, engines are timed with one"
        raise InputError(f"--dense {name}: {views}")
    rows = part.rows(snapshot)[np.array([snapshot.document(one) for one in source.ids])]
    if rows.min() < 0:
        raise InputError(f"--dense {name}: it lacks images of {index}: add them again")
    vectors, (_, model) = part.vectors(rows), part.loaded()
    images = np.concatenate([vectors.of(row) for row in rows.tolist()])
    about: Json = {
        "dimension": vectors.dimension,
        "images": len(images),
        "model": part.manifest.model,
        "text": model.model.config.text,
    }
    return DenseSource(name, images, *_embed(model.encode, queries), about)


def read_reranked(
    index: Path, source: ImpactSource, top_n: int | None, queries: Sequence[TermQuery]
) -> DenseSource:
    """The vectors that an index re-ranks by, of the source's photos, and queries by its text tower.

    The tower computes in bfloat16 if the processor does, on one core, text by text.
    """
    from sparta.adapt.text_tower import TextTower

    folder = index_folders(index)[0]
    if not Manifest.open(folder).rerank:
        raise InputError(f"--dense {RERANKED}: {index} has no vectors: build it with --rerank")
    snapshot = Snapshot.open(folder)
    documents = map(snapshot.document, source.ids)
    packed = snapshot.groundings(one for one in documents if one is not None)
    vectors = [vector_of(one) for one in packed]
    if not all(map(len, vectors)):
        raise InputError(f"--dense {RERANKED}: {index} has images without vectors, sent as terms")
    images, bfloat16 = _unit(np.array(vectors, np.float32)), computes_bfloat16("cpu")
    tower = TextTower(folder / TEXT_TOWER, read_entry(folder / TEXT_TOWER), bfloat16)
    embedded, seconds = _embed(lambda text: tower.encode([text])[0], queries)
    text = f"text tower in {BFLOAT16 if bfloat16 else FLOAT32}"
    about: Json = {"dimension": images.shape[1], "images": len(images), "text": text}
    kept = share_kept(source, top_n, queries, embedded, images)
    return DenseSource(RERANKED, images, embedded, seconds, about, kept)


def _embed(
    encode: Callable[[str], NDArray[np.float32]], queries: Sequence[TermQuery]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """[Q, D] vectors of the queries, and [Q] seconds that each took, on one core."""
    from threadpoolctl import threadpool_limits

    embedded, seconds = [], []
    with threadpool_limits(1):
        for query in queries[:UNTIMED]:
            encode(query.text)
        for query in queries:
            start = time.perf_counter()
            embedded.append(encode(query.text))
            seconds.append(time.perf_counter() - start)
    return np.array(embedded), np.array(seconds)


def enlarge_vectors(source: DenseSource, images: int, kind: Kind, path: Path) -> Vectors:
    """Write vectors of as many images as wanted, drawn with replacement and perturbed.

    The noise is 15 % of what the images differ from their mean, in which some models' vectors are
    nearly the same. "blends" are the middle of two images, as `enlarge` takes terms from two.
    """
    made = open_memmap(path, "w+", np.float32, (images, *source.images.shape[1:]))
    differences = source.images - source.images.mean(axis=0)
    noise = NOISE * np.linalg.norm(differences, axis=-1).mean()
    for start in range(0, images, CHUNK):
        rng = np.random.default_rng((0, start))
        part = made[start : start + CHUNK]
        chosen = source.images[rng.integers(len(source.images), size=len(part))]
        if kind == "blends":
            others = source.images[rng.integers(len(source.images), size=len(part))]
            chosen = _unit(chosen + others)
        part[:] = _unit(chosen + noise * _noise(rng, chosen.shape))
    made.flush()
    return Vectors(path, source.queries)


def _noise(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Normal numbers, each vector of length 1 on average."""
    return rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    scaled: NDArray[np.float32] = vectors / length
    return scaled
