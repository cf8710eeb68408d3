"""Feature stores of images made in a test."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from indexer.encoding.features import open_images
from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, StoreWriter


def write_store(
    folder: Path,
    source: FeatureSource,
    images: Iterable[ImageFeatures],
    *,
    photos: Path | None = None,
    shard_size: int = SHARD_SIZE,
) -> FeatureStore:
    """Write images whose ids rise into a new store and open it.

    Raises:
        InputError: if the folder already holds something.
        ValueError: if ids do not rise, or features are not finite or of another dimension.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; use another folder, or delete it")
    writer = StoreWriter(folder, source, photos=photos)
    for shard in _chunks(images, shard_size):
        writer.write_shard(shard)
    return writer.finish()


def _chunks(images: Iterable[ImageFeatures], size: int) -> Iterator[list[ImageFeatures]]:
    rest = iter(images)
    while chunk := list(islice(rest, size)):
        yield chunk


def kept_stores(
    photos: Path, models: Sequence[str | Path], out: Path, **options: Any
) -> list[FeatureStore]:
    """The features of photos that `sparta index --keep-features` leaves beside an index."""
    found = open_images([photos], models, out, keep_features=True, device="cpu", **options)
    assert isinstance(found, list)
    return found
