"""What is in an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.postings import rows_of
from indexer.dense.manifest import dense_folder, dense_names
from indexer.encoding.impacts import MEANS, REBUILD, drift
from indexer.engines.open import open_dense, open_index, snapshot_of
from indexer.fields.kinds import Kind
from indexer.manifest import LUCENE, UPLOADS, Manifest, index_folders, located
from indexer.state import bytes_below
from indexer.store.commit import LOGS, SEGMENTS, log_numbers, log_path
from indexer.store.snapshot import Snapshot


@dataclass(frozen=True)
class LiveInfo:
    """An index that was written to."""

    commit: int  # its number
    log_images: int  # images changed in the log that are in no segment, and are held in memory
    log_bytes: int  # of the logs with them
    segments: int
    deleted_share: float  # of all documents, which cost space until a merge
    # Of the images from those of the build; None if the index is of an earlier version
    drift: float | None
    rebuild: bool  # whether that is so much that a rebuild is worth it


@dataclass(frozen=True)
class IndexInfo:
    """What is in an index."""

    images: int  # how many
    terms_per_image: float  # mean
    created: str  # when it was built
    package_version: str  # that built it
    models: list[str]  # fingerprints
    augmentations: int  # of each photo
    precision: str  # that the photos' features were computed in
    pruning: str  # terms an image keeps at most, bits, offset, and choice of terms
    photos: str | None  # the folder it was built from
    engines: list[str]  # "lucene", "columns", and dense parts
    vectors: dict[str, int]  # images that each dense part can find
    bytes: dict[str, int]  # by part
    fields: Mapping[str, Kind]  # kind of each field of the metadata
    live: LiveInfo | None  # None if it is as it was built


def index_info(index: Path) -> IndexInfo:
    """Look into an index folder; raises InputError if the folder is not an index, or is damaged."""
    index = located(index)
    searcher, manifest = open_index(index), Manifest.open(index)
    snapshot = snapshot_of(searcher)
    images, postings, live = len(snapshot), manifest.postings, None
    if snapshot.commit.version:
        live, postings = _live(index, snapshot)
    vectors = {name: len(backend) for name, backend in open_dense(index, searcher).items()}
    return IndexInfo(
        images=images,
        terms_per_image=postings / max(1, images),
        created=manifest.created,
        package_version=manifest.package_version,
        models=manifest.models,
        augmentations=len(manifest.features),
        precision=manifest.precision,
        pruning=_pruning(manifest),
        photos=manifest.photos,
        engines=["columns", *["lucene"] * (index / LUCENE).is_dir(), *dense_names(index)],
        vectors=vectors,
        bytes=_bytes(index),
        fields=snapshot.kinds,
        live=live,
    )


def is_rebuild_due(index: Path) -> bool:
    """Whether an index, divided or not, has drifted so far that a rebuild is worth it."""
    return any(_live(one, Snapshot.open(one))[0].rebuild for one in index_folders(index))


def _live(index: Path, snapshot: Snapshot) -> tuple[LiveInfo, int]:
    """What writing has done, and how many postings there are."""
    commit, (impacts, images), found = snapshot.commit, term_sums(snapshot), None
    if (index / MEANS).is_file():
        built = np.load(index / MEANS, allow_pickle=False)
        found = drift(built, impacts / max(1, len(snapshot)))
    logs = [log_path(index, one) for one in log_numbers(index) if one >= commit.segments.log]
    info = LiveInfo(
        commit=commit.version,
        log_images=sum(map(len, snapshot.newest)),
        log_bytes=sum(path.stat().st_size for path in logs),
        segments=len(snapshot.segments.all),
        deleted_share=1 - len(snapshot) / max(1, snapshot.documents),
        drift=found,
        rebuild=found is not None and found >= REBUILD,
    )
    return info, int(images.sum())


def _pruning(manifest: Manifest) -> str:
    kept = "all terms" if manifest.top_n is None else f"{manifest.top_n:,} terms"
    source = manifest.frequencies[:12]
    return f"{kept} of {manifest.bits} bits, offset {manifest.offset}, term frequencies {source}"


def _bytes(index: Path) -> dict[str, int]:
    """Size of each part that there is, and of all else."""
    folders = {name: index / name for name in (SEGMENTS, LOGS, LUCENE, UPLOADS)}
    folders |= {name: dense_folder(index, name) for name in dense_names(index)}
    sizes = {name: bytes_below(folder) for name, folder in folders.items() if folder.is_dir()}
    return sizes | {"other": bytes_below(index) - sum(sizes.values())}


def term_sums(columns: Snapshot) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[V] the sum of each term's impacts in all images, and [V] how many images have the term."""
    live = np.ones(columns.documents, np.bool_) if columns.live is None else columns.live
    impacts, images = np.zeros((2, columns.vocabulary), np.int64)
    first = 0
    for segment in columns.segments.all:
        own, first = live[first : first + len(segment)], first + len(segment)
        for rows in rows_of(segment.index.columns, own):
            weighed = np.bincount(rows.terms, rows.impacts, columns.vocabulary)  # exact below 2^53
            impacts += weighed.astype(np.int64)
            images += np.bincount(rows.terms, minlength=columns.vocabulary)
    for newest in columns.newest:
        own, first = live[first : first + len(newest)], first + len(newest)
        matrix = newest.columns[:, : len(newest)][:, own]
        impacts += matrix.sum(axis=1, dtype=np.int64)
        images += np.count_nonzero(matrix, axis=1)
    return impacts, images
