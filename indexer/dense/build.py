"""The offline job of a dense model: a feature store's vectors, added to an index folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import zip_longest
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
    is_name,
)
from indexer.dense.text_encoder import load_dense_model
from indexer.dense.vectors import ImageVectors, VectorIndexKind, import_faiss
from indexer.inputs import check_views
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import LUCENE, Manifest, is_index, part_sizes
from indexer.model_loading import check_features, model_fingerprint, read_config
from sparta.atomic import finish_replacement, replace_folder
from sparta.errors import InputError
from sparta.features.extract.backbone import pick_device
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.vse.config import VseConfig
from sparta.vse.image_batches import image_batches
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder


def name_models(given: Sequence[str]) -> dict[str, str]:
    """Name → folder or hub name of each model, from MODEL (by its own name) or NAME=MODEL.

    Raises:
        InputError: if a name cannot be used, two are the same, or what is given is no model.
    """
    models: dict[str, str] = {}
    for text in given:
        name, _, model = text.partition("=")
        if not model or "/" in name:  # a path may have a = of its own
            model = text
            name = read_config(model, VseConfig, "--dense").name
        if not is_name(name):
            raise InputError(
                f"--dense {text}: {name!r} cannot be a backend's name, which has letters, digits, "
                "+, _ and - and is not sparta or ensemble: give --dense NAME=MODEL"
            )
        if name in models:
            raise InputError(
                f"--dense {models[name]} and {model} are both named {name!r}: tell them apart "
                "with --dense NAME=MODEL"
            )
        models[name] = model
    return models


def check_index(index: Path) -> None:
    """Refuse to add to what is no index.

    Raises:
        InputError: if it is none.
    """
    finish_replacement(index, is_index)
    if not is_index(index):
        raise InputError(f"{index} is no index yet, which --dense adds to: give --model as well")


def check_models(models: Mapping[str, str], store: FeatureStore) -> None:
    """Refuse, before long work, models that cannot embed a store.

    Raises:
        InputError: if one is no dense model or takes other features, the store is no plain view,
            or FAISS is not installed.
    """
    import_faiss()
    check_views([store])
    for model in models.values():
        config = read_config(model, VseConfig, "--dense")
        if config.vision is None:
            check_features(f"--dense {model}", config, store)
        elif store.photos is None or not store.photos.is_dir():
            raise InputError(
                f"--dense {model} takes photos, and those of {store.folder} are not where it says "
                f"({store.photos or 'nowhere'}): extract them anew"
            )


def add_dense(
    index: Path,
    store: FeatureStore,
    name: str,
    model: str | Path,
    *,
    kind: VectorIndexKind = "flat",
    batch_size: int = 32,
    device: str = "auto",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> DenseManifest:
    """Embed the images of an index and put `dense/NAME` in it, which appears whole or not at all.

    Args:
        index: an index folder.
        store: features of the same images.
        name: of the part; one of that name is replaced.
        model: folder or hub name of a dense model.
        kind: "flat" (exact) or "hnsw".
        batch_size: images per pass.
        device: "auto" takes a GPU if there is one.
        progress: called with images done and in all.

    Raises:
        InputError: if the index is none, its images are others, or the model does not fit.
    """
    check_index(index)
    manifest = Manifest.open(index)
    check_models({name: str(model)}, store)
    check_ids(index, store)
    loaded = load_dense_model(model)
    vectors = ImageVectors.create(loaded.config.dimension, loaded.config.views, kind)
    for batch in _embed(loaded, store, batch_size, pick_device(device)):
        vectors.add(batch)
        progress(len(vectors), len(store))
    folder = dense_folder(index, name)
    work = folder.with_name(folder.name + ".building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    vectors.save(work / VECTORS)
    loaded.save_pretrained(work / MODEL)
    made = DenseManifest(
        format_version=FORMAT_VERSION,
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        model=model_fingerprint(loaded),
        features=store.fingerprint,
        indexed_features=manifest.features[0],
        images=len(vectors),
        views=vectors.views,
        dimension=vectors.dimension,
        kind=kind,
        parts=part_sizes(work),
    )
    made.save(work)
    finish_replacement(folder, is_index)
    replace_folder(work, folder)
    return made


def check_ids(index: Path, store: FeatureStore) -> None:
    """Refuse a store whose images are not those of an index, in the same order.

    Raises:
        InputError: naming the first difference.
    """
    with closing(LuceneIndex(index / LUCENE)) as images:
        wanted = [images.stored(document).image_id for document in range(len(images))]
    for row, (theirs, ours) in enumerate(zip_longest(wanted, store.ids)):
        if theirs != ours:
            raise InputError(
                f"{store.folder} has other images than {index}: image {row} is "
                f"{ours or 'missing'} instead of {theirs or 'absent'}"
            )


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
                "finite: its weights are damaged, or its training went astray"
            )
        start += len(vectors)
        yield vectors
    model.to("cpu")  # type: ignore[arg-type]
