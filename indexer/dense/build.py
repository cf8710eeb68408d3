"""The offline job of a dense model: embeds a feature store and adds the vectors to an index."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from indexer.dense.manifest import (
    MODEL,
    VECTORS,
    DenseManifest,
    dense_folder,
    is_name,
)
from indexer.dense.text_encoder import load_dense_model
from indexer.dense.vectors import (
    AddedRows,
    ImageVectors,
    VectorIndexKind,
    import_faiss,
    read_content_ids,
    write_content_ids,
)
from indexer.encoding.features import check_features, check_same_images, check_stores
from indexer.encoding.models import model_fingerprint
from indexer.manifest import (
    Manifest,
    check_hash,
    check_whole,
    describe_parts,
    is_index,
    located,
)
from indexer.store.images import built_content_id, content_id_of
from indexer.store.snapshot import Snapshot
from sparta.errors import InputError
from sparta.features.record import FeatureSource
from sparta.features.store import FeatureStore
from sparta.files import (
    check_name,
    full_disk_reported,
    recover,
    replace_folder,
    sha256,
    work_folder,
    writing,
)
from sparta.model_id import read_model_config
from sparta.networks.backbone import pick_device
from sparta.progress import Progress, no_progress
from sparta.text_encoder import move
from sparta.vse.batch import ImageInput, collate_images
from sparta.vse.config import VseConfig
from sparta.vse.encoders import PhotoFolder
from sparta.vse.model import VseModel


def name_models(given: Sequence[str]) -> dict[str, str]:
    """Name → folder or hub name of each model, from MODEL (its configured name) or NAME=MODEL.

    Raises InputError if a name cannot be used, two are the same, or one is not a dense model.
    """
    models: dict[str, str] = {}
    for text in given:
        name, _, model = text.partition("=")
        if not model or "/" in name:  # a path may contain a =
            model = text
            name = _read_config(model).name
        if not is_name(name):
            raise InputError(
                f"--model {text}: {name!r} cannot be a backend's name, which has letters, digits, "
                "+, _ and - and is not sparta or milvus: give --model NAME=MODEL"
            )
        if name in models:
            raise InputError(
                f"--model {models[name]} and {model} are both named {name!r}: distinguish them "
                "with --model NAME=MODEL"
            )
        models[name] = model
    return models


def check_models(models: Mapping[str, str], store: FeatureStore) -> None:
    """Raise InputError, before long work, if a model cannot embed a store.

    It may be no dense model or take other features, the store not be the plain one, or FAISS
    missing.
    """
    import_faiss()
    check_stores([store])
    for model in models.values():
        config = _read_config(model)
        if config.vision is None:
            check_features(model, config, store.source, store.folder)
        elif store.photos is None or not store.photos.is_dir():
            raise InputError(
                f"--model {model} takes photos, and those of {store.folder} are not where it "
                f"records them ({store.photos or 'nowhere'}): extract them again"
            )


def _read_config(model: str) -> VseConfig:
    values = read_model_config(model, (VseConfig.model_type,), "dense model", "--model")
    return VseConfig.from_dict(values)


def embed(model: VseModel, images: Sequence[ImageInput], ids: Sequence[str]) -> NDArray[np.float32]:
    """Vectors [B, K, D] of a batch of images, computed on the model's device.

    The images are features, or pixels for a model with a vision network. Raises InputError, which
    names some of `ids`, if a vector is not finite.
    """
    batch = collate_images(images, model.config.max_regions).to(model.device)
    with torch.inference_mode():
        vectors: NDArray[np.float32] = model.encode_images(batch).cpu().numpy()
    if not np.isfinite(vectors).all():
        raise InputError(
            f"the model's vectors of {ids[0]} to {ids[-1]} are not finite: its weights are "
            "damaged, or its training diverged"
        )
    return vectors


def pixels(model: VseModel, photos: Path, ids: Sequence[str]) -> list[NDArray[np.uint8]]:
    """Photos as a model with a vision network takes them; raises InputError if one is bad."""
    found = PhotoFolder(photos, FeatureSource(**model.config.feature_source), ids)
    return [found[found.index(image_id)] for image_id in ids]


def embed_store(
    model: VseModel, store: FeatureStore, rows: Sequence[int], batch_size: int, device: torch.device
) -> Iterator[NDArray[np.float32]]:
    """Vectors [B, K, D] of some of a store's images, in order.

    Raises InputError if a photo cannot be read, or a vector is not finite.
    """
    move(model, device)
    for start in range(0, len(rows), batch_size):
        own = rows[start : start + batch_size]
        ids = [store.ids[row] for row in own]
        if model.vision is not None and store.photos is not None:
            yield embed(model, pixels(model, store.photos, ids), ids)
        else:
            yield embed(model, [store[row] for row in own], ids)
    move(model, "cpu")


def check_index(index: Path) -> None:
    """Raise InputError if a folder is no whole index, or another process is writing it."""
    check_name(index)
    check_whole(index)
    if index.parent.is_dir():
        with writing(located(index)):
            recover(located(index))
    if not is_index(index):
        raise InputError(f"{index} is not an index yet: build it with `sparta index` first")
    Manifest.read(index)  # of one in shards, a line says what to do


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

    Of an index that was written to, those images are embedded that are as they were built, or were
    written with the features that the store has, perhaps of some of them. The others keep the
    vectors that the former part of this name and model has of them; it is replaced.

    `model` is the folder or hub name of a dense model, `kind` "flat" (exact) or "hnsw". Progress
    has the stage "embed NAME", in images. Raises InputError if the folder is not an index, its
    images are others, the model does not fit, or another process is writing the index.
    """
    check_index(index)
    index = located(index)
    with writing(index):
        manifest, images = Manifest.open(index), Snapshot.open(index)
        check_models({name: str(model)}, store)
        present = present_content_ids(images)
        if not images.commit.version:
            check_same_images(store, list(present), index)
        rows, loaded = usable_rows(store, present), load_dense_model(model)
        vectors = ImageVectors.create(loaded.config.dimension, loaded.config.views, kind)
        for batch in embed_store(loaded, store, rows, batch_size, pick_device(device)):
            vectors.add(batch)
            progress(f"embed {name}", len(vectors), len(rows))
        content_ids = [present[store.ids[row]] for row in rows]
        if wanted := set(present.values()) - set(content_ids):
            content_ids += keep_rows(
                index, name, manifest, model_fingerprint(loaded), wanted, vectors
            )
        if not content_ids:
            raise InputError(
                f"{store.folder} has none of the images that are in {index} now: they were added "
                "or replaced with other features"
            )
        target = dense_folder(index, name)
        with full_disk_reported(index), work_folder(target) as work:
            about = store.fingerprint, manifest, content_ids
            made = _write(work / name, loaded, vectors, kind, *about)
            replace_folder(work / name, target, work)
    return made


def _write(
    folder: Path,
    model: VseModel,
    vectors: ImageVectors,
    kind: VectorIndexKind,
    features: str,
    of: Manifest,
    content_ids: Sequence[str],
) -> DenseManifest:
    """Write a whole dense part into a new folder; `features` is the store's fingerprint."""
    folder.mkdir()
    vectors.save(folder / VECTORS)
    write_content_ids(folder, content_ids)
    model.save_pretrained(folder / MODEL)
    made = DenseManifest(
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
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


def present_content_ids(images: Snapshot) -> dict[str, str]:
    """Id → content id of the images that are not deleted."""
    content_ids = [
        one for _, content_ids in images.content_id_parts() for one in content_ids().to_pylist()
    ]
    documents = images.live_documents().tolist()
    return {images.stored(document).image_id: content_ids[document] for document in documents}


def usable_rows(store: FeatureStore, present: Mapping[str, str]) -> list[int]:
    """Rows of a store with images of an index in their present content."""
    rows = []
    for row, image_id in enumerate(store.ids):
        content_id = present.get(image_id)
        if content_id == built_content_id(image_id) or (
            content_id and content_id == content_id_of(store[row])
        ):
            rows.append(row)
    return rows


def keep_rows(
    index: Path,
    name: str,
    manifest: Manifest,
    model: str,
    wanted: Container[str],
    vectors: ImageVectors,
) -> list[str]:
    """Copy rows of some content ids from the part with the name and a model of this fingerprint.

    Returns their content ids.
    """
    folder = dense_folder(index, name)
    try:
        made = DenseManifest.open(index, name, manifest)
        if made.model != model:
            return []
        check_hash(folder / VECTORS, made.parts[VECTORS], sha256(folder / VECTORS))
        added = AddedRows(folder, made.views, made.dimension)
        following = added.content_ids()
        former = ImageVectors.open(folder / VECTORS, made.views)
        former = former.followed_by(added.vectors(len(following)))
        content_ids = [*read_content_ids(folder).to_pylist(), *following]
    except InputError:  # there is none, or it is damaged and made anew for that
        return []
    rows = {content_id: row for row, content_id in enumerate(content_ids) if content_id in wanted}
    for row in rows.values():
        vectors.add(former.of(row)[None])
    return list(rows)
