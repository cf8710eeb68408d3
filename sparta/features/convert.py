"""From features that others extracted to a feature store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, StoreWriter


class FeatureReader(Protocol):
    """Images of foreign files, by row in order of their ids, each read when it is asked for.

    Attributes:
        source: what made the features, as far as the files say.
        ids: of the images, rising.
        files: what is read.
    """

    source: FeatureSource
    ids: Sequence[str]
    files: Sequence[Path]

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
    images = len(reader.ids)
    files = [f"{path.resolve()}\0{path.stat().st_size}" for path in reader.files]
    listing = {
        "files": f"{len(files)} with hash {_hash(files)}",
        "images": f"{images} with hash {_hash(reader.ids)}",
    }
    writer = StoreWriter(out, reader.source, inputs=listing)
    if writer.complete:
        return FeatureStore.open(out)
    for start in range(writer.done * SHARD_SIZE, images, SHARD_SIZE):
        rows = range(start, min(start + SHARD_SIZE, images))
        writer.write_shard([reader[row] for row in rows])
        if progress is not None:
            progress(rows.stop, images)
    return writer.finish()


def named_source(name: str, dimension: int) -> FeatureSource:
    """Source of a detector's features whose files do not say which weights made them.

    Its name stands for the weights: features are equal if they are called the same.
    """
    return FeatureSource("region", name, name, dimension, image_size=0)


def without_boxes(image_id: str, features: NDArray[np.float16]) -> ImageFeatures:
    """An image whose files tell neither boxes nor labels nor size: each region is all of it.

    Args:
        image_id: of it.
        features: [n, d] float16.

    Returns:
        it, with 0 for width and height.
    """
    n = len(features)
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1))
    return ImageFeatures(image_id, features, boxes, ("",) * n, ("",) * n, width=0, height=0)


def _hash(lines: Sequence[str]) -> str:
    """Hash by which another run notices other files (by name and size) or images."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
