"""What `sparta index` is pointed at: feature stores, or photos to extract as the models need."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from indexer.manifest import is_index
from indexer.model_loading import read_config
from sparta.errors import InputError
from sparta.features.extract.augmented_stores import extract_augmented
from sparta.features.extract.detector_settings import Detection
from sparta.features.record import FeatureSource
from sparta.features.store import HEADER, FeatureStore
from sparta.progress import Progress, no_progress
from sparta.visualsparta.config import VisualSpartaConfig
from sparta.vse.config import VseConfig


def open_features(
    folders: Sequence[Path],
    models: Sequence[str | Path],
    out: Path,
    *,
    dense: Sequence[str | Path] = (),
    views: int | None = None,
    device: str = "auto",
    progress: Progress = no_progress,
) -> list[FeatureStore]:
    """Open feature stores, or make one per view from photos with the models' feature source.

    Args:
        folders: feature stores, or one folder of photos.
        models: folders or hub names of the models that will read the features.
        dense: likewise, dense models.
        out: the index folder; features of photos go to `OUT.features` and are reused.
        views: of each photo to extract, 1 if None; only for photos.
        device: of the extraction.
        progress: called with "extract", photos done and in all, over all views.

    Raises:
        InputError: if the folders are something else, or the models do not say, or disagree on,
            what made their features.
    """
    for folder in folders:
        _check_folder(folder)
    stores = [folder for folder in folders if (folder / HEADER).is_file()]
    if not stores and len(folders) == 1:
        source = _feature_source(models, dense)
        return extract_augmented(
            folders[0],
            out.with_name(out.name + ".features"),
            source.backbone or None,
            views or 1,
            detection=Detection.of(source),
            image_size=source.image_size or None,
            labels=source.label_count,
            device=device,
            progress=progress,
        )
    if views is not None:
        raise InputError("--views is for a folder of photos; of feature stores, each is one view")
    for folder in folders:
        if folder not in stores:
            raise InputError(
                f"{folder} is not a feature store (no {HEADER} in it): give one folder of photos "
                "alone, or feature stores"
            )
    return [FeatureStore.open(folder) for folder in folders]


def check_views(views: Sequence[FeatureStore]) -> None:
    """Refuse stores that are not of the same photos, made in the same way.

    Raises:
        InputError: if there are none, they are empty, or two differ, and in what.
    """
    if not views:
        raise InputError("no features: give at least one feature store")
    first = views[0]
    if not len(first):
        raise InputError(f"{first.folder} holds no image: there is nothing to index")
    if first.augmentation != "plain":
        raise InputError(
            f"{first.folder} has the augmentation {first.augmentation}, whose boxes do not fit the "
            "photos: give the store of the plain photos first"
        )
    for view in views[1:]:
        if differences := first.source.differences(view.source):
            raise InputError(
                f"{view.folder} is no view of {first.folder}: {'; '.join(differences)}"
            )
        for row, (wanted, found) in enumerate(zip_longest(first.ids, view.ids)):
            if wanted != found:
                raise InputError(
                    f"{view.folder} is no view of {first.folder}: image {row} is "
                    f"{found or 'missing'} instead of {wanted or 'absent'}"
                )


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        state = "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {state}: give feature stores or a folder of photos")
    if is_index(folder):
        raise InputError(
            f"{folder} is an index already: give the photos or feature stores to build one from"
        )


def _feature_source(models: Sequence[str | Path], dense: Sequence[str | Path]) -> FeatureSource:
    """What made the features of all the models."""
    configs: dict[str, VisualSpartaConfig | VseConfig] = {
        f"--model {name}": read_config(name, VisualSpartaConfig) for name in models
    }
    configs |= {f"--dense {name}": read_config(name, VseConfig, "--dense") for name in dense}
    sources = {}
    for name, config in configs.items():
        if config.feature_source is None:
            raise InputError(
                f"{name} does not say what made its features: run sparta extract first"
            )
        sources[name] = FeatureSource(**config.feature_source)
    chosen, first = next(iter(sources.items()))
    for name, source in sources.items():
        if differences := first.differences(source):
            raise InputError(f"{name} takes other features than {chosen}: {'; '.join(differences)}")
    if first.kind == "region" and not first.detector:
        raise InputError(
            f"{chosen} takes regions that others extracted ({first.backbone}), which cannot be "
            "made here: give a feature store of such regions instead of photos"
        )
    return first
