"""From features that others extracted to a feature store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, StoreWriter


class FeatureReader(Protocol):
    """Images of foreign files by row, in order of their ids, each read when it is asked for.

    Attributes:
        source: what made the features, as far as the files say.
        files: what is read.
    """

    source: FeatureSource
    files: Sequence[Path]

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> ImageFeatures: ...


def convert(
    reader: FeatureReader, out: Path, progress: Callable[[int, int], None] | None = None
) -> FeatureStore:
    """Write a reader's images into a store, a shard at a time in memory.

    A run that was killed continues when it is called again in the same way.

    Args:
        reader: of the files.
        out: folder of the store.
        progress: called with the images done and all images.

    Raises:
        InputError: if an image is malformed, or `out` holds features of other inputs.
    """
    listing = {"files": f"{len(reader.files)} with hash {_listing_hash(reader.files)}"}
    writer = StoreWriter(out, reader.source, inputs=listing)
    if writer.complete:
        return FeatureStore.open(out)
    for start in range(writer.done * SHARD_SIZE, len(reader), SHARD_SIZE):
        rows = range(start, min(start + SHARD_SIZE, len(reader)))
        writer.write_shard([reader[row] for row in rows])
        if progress is not None:
            progress(rows.stop, len(reader))
    return writer.finish()


def named_source(name: str, dimension: int) -> FeatureSource:
    """Source of a detector's features whose files do not say which weights made them.

    Its name stands for the weights: features are equal if they are called the same.
    """
    return FeatureSource("region", name, name, dimension, image_size=0)


def _listing_hash(files: Sequence[Path]) -> str:
    """Hash of names and sizes, to notice other files without reading them."""
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.resolve()}\0{path.stat().st_size}\0".encode())
    return digest.hexdigest()[:16]
