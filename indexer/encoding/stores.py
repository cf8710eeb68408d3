"""Feature stores to index: opened, or extracted from photos as the models require; and checked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, Protocol

from indexer.manifest import is_index
from sparta.atomic import check_name
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.features.extract.augmented_stores import extract_augmented
from sparta.features.extract.detector_settings import DetectorSettings, extract_command
from sparta.features.record import FeatureImages, FeatureSource
from sparta.features.store import HEADER, FeatureStore
from sparta.model_id import read_model_config
from sparta.progress import Notice, Progress, no_notice, no_progress

# `model_type` of a configuration → title, for messages.
KINDS = {"visual_sparta": "VisualSparta model", "vse": "dense model"}
ModelKind = Literal["visual_sparta", "vse"]


class FeatureConfig(Protocol):
    """What a model's configuration says of the features it takes."""

    @property
    def feature_source(self) -> dict[str, Any] | None: ...  # noqa: D102

    @property
    def feature_dim(self) -> int: ...  # noqa: D102


def open_stores(
    folders: Sequence[Path],
    models: Sequence[str | Path],
    kind: ModelKind,
    out: Path,
    *,
    augmentations: int | None = None,
    device: str = "auto",
    cluster: Cluster | None = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> list[FeatureStore]:
    """Open feature stores, or extract them from photos as the models require.

    Args:
        folders: feature stores, or one folder of photos.
        models: folders or hub names of the models that will read the features.
        kind: of the models.
        out: the index folder; features of photos go to `OUT.features`, from where those of
            unchanged photos are taken the next time.
        augmentations: feature stores to extract from photos, 1 if None; only for photos.
        device: of the extraction.
        cluster: whose workers extract; None for this process.
        progress: stage "extract", in photos, over all augmentations.
        notice: is called with one line if photos have changed since.

    Raises:
        InputError: if the folders are something else, or the models do not record what made their
            features, or disagree on it.
    """
    check_name(out)
    for folder in folders:
        _check_folder(folder)
    stores = [folder for folder in folders if (folder / HEADER).is_file()]
    if not stores and len(folders) == 1:
        features = out.with_name(out.name + ".features")
        return extract_stores(
            folders[0],
            models,
            kind,
            features,
            augmentations or 1,
            None,
            device,
            progress,
            notice,
            cluster,
        )
    if augmentations is not None:
        raise InputError(
            "--augmentations is for a folder of photos: give one feature store per augmentation "
            "instead"
        )
    for folder in folders:
        if folder not in stores:
            raise InputError(
                f"{folder} is not a feature store (no {HEADER} in it): give one folder of photos "
                "alone, or feature stores"
            )
    return [FeatureStore.open(folder) for folder in folders]


def extract_stores(
    photos: Path,
    models: Sequence[str | Path],
    kind: ModelKind,
    out: Path,
    augmentations: int = 1,
    ids: Sequence[str] | None = None,
    device: str = "auto",
    progress: Progress = no_progress,
    notice: Notice = no_notice,
    cluster: Cluster | None = None,
) -> list[FeatureStore]:
    """Extract photos as models require, once for each augmentation, into `out/plain` and so on.

    Args:
        photos: folder that ids are relative to.
        models: folders or hub names of the models that will read the features.
        kind: of the models.
        out: folder of the stores.
        augmentations: how many.
        ids: of the photos to take, sorted; None for all that the folder has.
        device: of the extraction.
        progress: stage "extract", in photos, over all augmentations.
        notice: is called with one line if photos have changed since.
        cluster: whose workers extract; None for this process.

    Raises:
        InputError: if no photo can be used, or the models do not record what made their features,
            or disagree on it.
    """
    source = feature_source(models, kind)
    return extract_augmented(
        photos,
        out,
        source.backbone or None,
        augmentations,
        ids=ids,
        detection=DetectorSettings.of(source),
        image_size=source.image_size or None,
        labels=source.label_count,
        grid=source.extra.get("grid"),
        device=device,
        cluster=cluster,
        progress=progress,
        notice=notice,
    )


def check_stores(stores: Sequence[FeatureStore]) -> None:
    """Refuse stores that are not augmentations of the same photos, the plain store first.

    Raises:
        InputError: if there are none, they are empty, or two differ; the text names what differs.
    """
    if not stores:
        raise InputError("no features: give at least one feature store")
    first = stores[0]
    if not len(first):
        raise InputError(f"{first.folder} holds no image: there is nothing to index")
    if first.augmentation != "plain":
        raise InputError(
            f"{first.folder} has augmentation {first.augmentation}, whose boxes do not fit the "
            "photos: give the plain feature store first"
        )
    for store in stores[1:]:
        if differences := first.source.differences(store.source):
            raise InputError(
                f"{store.folder} has other features than {first.folder}: {'; '.join(differences)}"
            )
        check_same_images(store, first.ids, first.folder)


def check_same_images(store: FeatureStore, ids: Sequence[str], folder: Path) -> None:
    """Refuse a store whose images are not those of another folder, in the same order.

    Args:
        store: to check.
        ids: of the folder's images.
        folder: a feature store or an index, for the message.

    Raises:
        InputError: naming the first difference.
    """
    for row, (wanted, found) in enumerate(zip_longest(ids, store.ids)):
        if wanted != found:
            raise InputError(
                f"{store.folder} has other images than {folder}: image {row} is "
                f"{found or 'missing'} instead of {wanted or 'absent'}"
            )


def check_features(name: str | Path, config: FeatureConfig, store: FeatureImages) -> None:
    """Refuse features a model was not trained on.

    Args:
        name: the model's folder or hub name, for messages.
        config: the model's, with `feature_source` and `feature_dim`.
        store: the features.

    Raises:
        InputError: naming what differs (the model's against the store's).
    """
    if config.feature_source is None:
        if store.source.dimension != config.feature_dim:
            raise InputError(
                f"{store.folder} has features of {store.source.dimension} numbers, --model {name} "
                f"takes {config.feature_dim}"
            )
        return
    wanted = FeatureSource(**config.feature_source)
    if differences := wanted.differences(store.source):
        raise InputError(
            f"{store.folder} holds other features than --model {name} was trained on (the model's "
            f"against the store's): {'; '.join(differences)}. Make them with "
            f"{extract_command(wanted)}"
        )


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {state}: give feature stores or a folder of photos")
    if is_index(folder):
        raise InputError(
            f"{folder} is an index: give the photos or feature stores to build one from"
        )


def feature_source(models: Sequence[str | Path], kind: ModelKind) -> FeatureSource:
    """What made the features that all the models were trained on.

    Raises:
        InputError: if there is no model, one does not record it, two disagree, or it is a detector
            that is not available.
    """
    if not models:
        raise InputError("no --model: give at least one")
    sources = {}
    for name in models:
        recorded = read_model_config(name, (kind,), KINDS[kind], "--model").get("feature_source")
        if recorded is None:
            raise InputError(
                f"--model {name} does not record what made its features: run sparta extract first"
            )
        sources[name] = FeatureSource(**recorded)
    chosen, first = next(iter(sources.items()))
    for name, source in sources.items():
        if differences := first.differences(source):
            raise InputError(
                f"--model {name} takes other features than --model {chosen}: "
                f"{'; '.join(differences)}"
            )
    if first.kind == "region" and not first.detector:
        raise InputError(
            f"--model {chosen} takes regions of a detector that is not available "
            f"({first.backbone}): give a feature store of such regions instead of photos"
        )
    return first
