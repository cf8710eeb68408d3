"""The feature stores of images to add: opened, or extracted from photos for as long as needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from indexer.encoding.stores import extract_stores
from indexer.manifest import Manifest
from indexer.shards import index_folders
from indexer.update.photos import ChosenPhotos, choose_photos
from sparta.atomic import work_folder
from sparta.errors import InputError
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
