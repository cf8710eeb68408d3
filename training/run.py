"""What every training run is put together from: feature stores, photos, data loaders."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch.utils.data import DataLoader

from sparta.captions.read import CaptionedPhoto, read_captions
from sparta.errors import InputError
from sparta.features.extract.augmented_stores import extract_augmented
from sparta.features.store import FeatureStore
from training.module import TrainingModule
from training.run_config import PhotosConfig

log = logging.getLogger(__name__)


class ProcessPart(NamedTuple):
    """One process's part of a run: which of `world` processes, and the epoch it begins with."""

    rank: int
    world: int
    epoch: int


class Run(NamedTuple):
    """What a trainer is given; no validation loader where nothing is held out."""

    module: TrainingModule
    training: DataLoader[Any]
    validation: DataLoader[Any] | None


def open_views(config: PhotosConfig, out: Path) -> list[FeatureStore]:
    """Open the run's feature stores, or extract them from its photos into `out/features`.

    Raises:
        InputError: if neither or both are named, or the stores come from different sources.
    """
    if config.photos is not None and not config.features:
        if config.backbone is None:
            raise InputError("data.backbone: name what turns data.photos into features")
        return extract_augmented(config.photos, out / "features", config.backbone, config.views)
    if config.photos is not None or not config.features:
        raise InputError(
            "data.features: name feature stores (--set data.features=[DIR]), or else data.photos "
            "and data.backbone"
        )
    views = [FeatureStore.open(folder) for folder in config.features]
    for view in views[1:]:
        if different := views[0].source.differences(view.source):
            raise InputError(f"{view.folder} is no view of {views[0].folder}: {different[0]}")
    return views


class CaptionedImageIds(Protocol):
    """Images by id, as features or as photos."""

    @property
    def ids(self) -> Sequence[str]: ...  # noqa: D102


def split_photos(
    config: PhotosConfig, views: Sequence[CaptionedImageIds], seed: int
) -> tuple[list[CaptionedPhoto], list[CaptionedPhoto]]:
    """Photos to train on and photos to choose by, each sorted by id and present in every view.

    Raises:
        InputError: if no captions are named, nothing is left to train on, or captions and
            features speak of different photos.
    """
    if config.captions is None:
        raise InputError("data.captions: name a captions.jsonl (--set data.captions=FILE)")
    read = partial(read_captions, config.captions, image_key=config.image_key)
    photos = sorted(read(config.split), key=lambda p: p.image_id)
    held_out: list[CaptionedPhoto] = []
    if config.validation_split:
        held_out = read(config.validation_split)
    elif config.validation_photos:
        if config.validation_photos >= len(photos):
            raise InputError(
                f"data.validation_photos: holding out {config.validation_photos} of "
                f"{len(photos)} photos leaves none to train on"
            )
        order = np.random.default_rng(seed).permutation(len(photos))
        chosen = set(order[: config.validation_photos].tolist())
        held_out = [p for i, p in enumerate(photos) if i in chosen]
        photos = [p for i, p in enumerate(photos) if i not in chosen]
    return _present(photos, views), _present(held_out, views)


def _present(
    photos: list[CaptionedPhoto], views: Sequence[CaptionedImageIds]
) -> list[CaptionedPhoto]:
    known = set.intersection(*(set(view.ids) for view in views))
    kept = sorted((p for p in photos if p.image_id in known), key=lambda p: p.image_id)
    if photos and not kept:
        raise InputError(
            f"no captioned photo is in the feature store: captions speak of "
            f"{photos[0].image_id!r}, the store holds {views[0].ids[0]!r}"
        )
    if missing := len(photos) - len(kept):
        log.warning("%d of %d captioned photos have no features: left out", missing, len(photos))
    return kept
