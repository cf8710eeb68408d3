"""The offline job of a dense model: embeds a feature store and adds the vectors to an index."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.dense.manifest import (
    FORMAT_VERSION,
    MODEL,
    VECTORS,
    DenseManifest,
    dense_folder,
)
from indexer.dense.models import check_models
from indexer.dense.text_encoder import load_dense_model
from indexer.dense.vectors import ImageVectors, VectorIndexKind
from indexer.encoding.models import model_fingerprint
from indexer.encoding.stores import check_same_images
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import Manifest, is_index
from indexer.parts import LUCENE, describe_parts
from sparta.atomic import check_name, recover, replace_folder, work_folder
from sparta.disk import full_disk_reported
from sparta.errors import InputError
from sparta.features.extract.networks.backbone import pick_device
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.lock import writing
from sparta.progress import Progress, no_progress
from sparta.vse.image_batches import image_batches
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder


def check_index(index: Path) -> None:
    """Refuse to add to a folder that is not an index.

    Raises:
        InputError: if it is not, or another process is writing it.
    """
    check_name(index)
    if index.parent.is_dir():
        with writing(index):
            recover(index)
    if not is_index(index):
        raise InputError(f"{index} is not an index yet: build it with `sparta index` first")


def add_dense(
    index: Path,
    store: FeatureStore,
    name: str,
    model: str | Path,
    *,
    kind: VectorIndexKind = "flat",
    batch_size: int = 32,
    device: str = "auto",
    progress: Progress = no_progress,
) -> DenseManifest:
    """Embed the images of an index and add them as `dense/NAME`, complete or not at all.

    Args:
        index: an index folder.
        store: features of the same images.
        name: of the part; one of that name is replaced.
        model: folder or hub name of a dense model.
        kind: "flat" (exact) or "hnsw".
        batch_size: images per pass.
        device: "auto" takes a GPU if there is one.
        progress: stage "embed NAME", in images.

    Raises:
        InputError: if the folder is not an index, or was written to since it was built, its images
            are others, the model does not fit, or another process is writing the index.
    """
    check_index(index)
    with writing(index):
        manifest = Manifest.open(index)
        if manifest.live:
            raise InputError(
                f"{index} has been written to since it was built, and dense parts do not follow "
                "that yet: build the index again, and add them before it is written to"
            )
        check_models({name: str(model)}, store)
        with closing(LuceneIndex(index / LUCENE)) as images:
            ids = [images.stored(document).image_id for document in range(len(images))]
        check_same_images(store, ids, index)
        loaded = load_dense_model(model)
        vectors = ImageVectors.create(loaded.config.dimension, loaded.config.views, kind)
        for batch in _embed(loaded, store, batch_size, pick_device(device)):
            vectors.add(batch)
            progress(f"embed {name}", len(vectors), len(store))
        with full_disk_reported(index), work_folder(dense_folder(index, name)) as work:
            made = _write(work / name, loaded, vectors, kind, store.fingerprint, manifest)
            replace_folder(work / name, dense_folder(index, name), work)
    return made


def _write(
    folder: Path,
    model: VseModel,
    vectors: ImageVectors,
    kind: VectorIndexKind,
    features: str,
    of: Manifest,
) -> DenseManifest:
    """Write a whole dense part into a new folder; `features` is the store's fingerprint."""
    folder.mkdir()
    vectors.save(folder / VECTORS)
    model.save_pretrained(folder / MODEL)
    made = DenseManifest(
        format_version=FORMAT_VERSION,
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=model_fingerprint(model),
        features=features,
        indexed_features=of.features[0],
        images=len(vectors),
        views=vectors.views,
        dimension=vectors.dimension,
        kind=kind,
        parts=describe_parts(folder),
    )
    made.save(folder)
    return made


def _embed(
    model: VseModel, store: FeatureStore, batch_size: int, device: torch.device
) -> Iterator[NDArray[np.float32]]:
    """Vectors [B, K, D] of the store's images, in order."""
    model.to(device)  # type: ignore[arg-type]
    images: FeatureStore | PhotoFolder = store
    if model.vision is not None and store.photos is not None:
        source = FeatureSource(**model.config.feature_source)
        images = PhotoFolder(store.photos, source, store.ids)
    start = 0
    for batch in image_batches(model, images, range(len(images)), batch_size):
        with torch.inference_mode():
            vectors = model.encode_images(batch).cpu().numpy()
        if not np.isfinite(vectors).all():
            raise InputError(
                f"the model's vectors of {store.ids[start]} to "
                f"{store.ids[start + len(vectors) - 1]} are not "
                "finite: its weights are damaged, or its training diverged"
            )
        start += len(vectors)
        yield vectors
    model.to("cpu")  # type: ignore[arg-type]
