"""The feature stores of images to add: opened, or extracted from photos for as long as needed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from indexer.encoding.stores import extract_stores
from indexer.manifest import Manifest
from indexer.shards import index_folders
from sparta.atomic import work_folder
from sparta.errors import InputError
from sparta.features.extract.photos import find_photos
from sparta.features.skipped import Skipped, read_skipped
from sparta.features.store import FeatureStore
from sparta.lock import writing
from sparta.progress import Progress, no_progress


class FoundStores(NamedTuple):
    """Images to add.

    Attributes:
        stores: of the same photos, the plain one first.
        skipped: photos that cannot be used.
    """

    stores: list[FeatureStore]
    skipped: list[Skipped]


@contextmanager
def opened_stores(
    index: Path,
    photos: Sequence[Path],
    features: Sequence[Path],
    models: Sequence[str | Path],
    device: str = "auto",
    progress: Progress = no_progress,
) -> Iterator[FoundStores]:
    """Open feature stores, or extract photos as the index's were.

    Args:
        index: the folder of the index.
        photos: photos or folders of photos; none if there are stores.
        features: feature stores; none if there are photos.
        models: folders or hub names of the models that will read the features.
        device: of the extraction.
        progress: stage "extract", in photos, over all augmentations.

    Yields:
        the stores; those of photos are removed at the end.

    Raises:
        InputError: if a store or a photo does not exist, or no photo can be used.
    """
    manifest = Manifest.open(index_folders(index)[0])  # shards are encoded alike
    if features:
        yield FoundStores([FeatureStore.open(folder) for folder in features], [])
        return
    chosen = choose_photos(photos, manifest.photos)
    added = index.with_name(f"{index.name}.added")
    with writing(added), work_folder(added) as work:
        stores = _extract(chosen, models, work, len(manifest.features), device, progress)
        yield FoundStores(stores, read_skipped(stores[0].folder))


def _extract(
    chosen: ChosenPhotos,
    models: Sequence[str | Path],
    work: Path,
    augmentations: int,
    device: str,
    progress: Progress,
) -> list[FeatureStore]:
    """Extract photos into a work folder; the error of useless ones has a reason, not its path."""
    try:
        return extract_stores(
            chosen.folder,
            models,
            "visual_sparta",
            work,
            augmentations,
            chosen.ids,
            device,
            progress,
        )
    except InputError as error:
        skipped = read_skipped(work / "plain")
        if not skipped:
            raise
        more = f" (and {len(skipped) - 1} more)" if len(skipped) > 1 else ""
        first = f"{chosen.folder / skipped[0].image_id}: {skipped[0].reason}"
        raise InputError(f"no photo could be used: {first}{more}") from error


class ChosenPhotos(NamedTuple):
    """Photos of one folder.

    Attributes:
        folder: that the ids are relative to.
        ids: sorted, each once.
    """

    folder: Path
    ids: list[str]


def choose_photos(paths: Sequence[Path], photos: str | None) -> ChosenPhotos:
    """Find photos and give them ids as `sparta index` would.

    Photos in the folder that the index was built from have ids relative to it. Others must be in
    one folder, to which theirs are relative.

    Args:
        paths: photos, and folders that are searched at any depth.
        photos: the folder that the index was built from, None if it records none.

    Raises:
        InputError: if a path does not exist, a folder has no photo, or photos are in several
            folders outside of the index's.
    """
    for path in paths:
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(f"{path} does not exist: give photos, or folders of photos") from error
        except OSError:
            continue  # it is reported with the photos that cannot be read
    # The last part of a photo's path is its name, even if that is a link.
    folders = [os.path.isdir(path) for path in paths]  # noqa: PTH112
    places = [_real(path if one else path.parent) for path, one in zip(paths, folders, strict=True)]
    folder = _common_folder(places, _real(Path(photos)) if photos else None)
    ids: set[str] = set()
    for path, place, is_folder in zip(paths, places, folders, strict=True):
        inside = place.relative_to(folder)
        names = find_photos(place) if is_folder else [path.name]
        ids |= {(inside / name).as_posix() for name in names}
    return ChosenPhotos(folder, sorted(ids))


def _real(path: Path) -> Path:
    """A path without links; unlike `resolve`, also of links in a circle and over-long names."""
    return Path(os.path.realpath(path))


def _common_folder(places: Sequence[Path], photos: Path | None) -> Path:
    """The index's folder of photos if it contains all places, else the one place there is."""
    if photos is not None and all(place.is_relative_to(photos) for place in places):
        return photos
    if len(set(places)) > 1:
        raise InputError(
            f"{places[0]} and {places[1]} are not both in the folder that the index was built from"
            f" ({photos or 'which it does not record'}): add one folder at a time"
        )
    return places[0]
