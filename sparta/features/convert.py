"""From features that others extracted to a feature store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, SKIPPED, Skipped, StoreWriter


class FeatureReader(Protocol):
    """Images of foreign files, by row in order of their ids, each read when it is asked for.

    Opening the files raises InputError if one of them is missing or is not what it should be.
    What is wrong with a single image (its line is cut, it has features but no labels, it was
    there before) is raised when that row is asked for, so that the others can be had without it.
    An id that the files give to several images is as often in `ids`, and all its rows but one
    raise.

    Attributes:
        source: what made the features, as far as the files say.
        ids: of the images, in order; equal ones are neighbours.
        files: what is read.
    """

    source: FeatureSource
    ids: Sequence[str]
    files: Sequence[Path]

    def __getitem__(self, row: int) -> ImageFeatures: ...


def convert(
    reader: FeatureReader,
    out: Path,
    progress: Callable[[int, int], None] | None = None,
    skip_bad: bool = False,
) -> FeatureStore:
    """Write a reader's images into a store, a shard at a time in memory.

    A run that was killed, or ended at a malformed image, continues when it is called again.

    Args:
        reader: of the files.
        out: folder of the store.
        progress: called with the images done and all images.
        skip_bad: whether a malformed image is left out and listed in `out/skipped.jsonl`.

    Raises:
        InputError: if an image is malformed and not to be skipped, all are, or `out` holds
            features of other inputs.
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
        writer.write_shard(*_read(reader, rows, skip_bad))
        if progress is not None:
            progress(rows.stop, images)
    if not writer.images:
        raise InputError(f"no image could be used; {out / SKIPPED} says why")
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


def _read(
    reader: FeatureReader, rows: range, skip_bad: bool
) -> tuple[list[ImageFeatures], list[Skipped]]:
    """The images of some rows, and those that are malformed."""
    images: list[ImageFeatures] = []
    skipped: list[Skipped] = []
    for row in rows:
        try:
            images.append(reader[row])
        except InputError as error:
            if not skip_bad:
                raise InputError(
                    f"{error}. Images like this are left out with --skip-bad"
                ) from error
            skipped.append(Skipped(reader.ids[row], str(error)))
    return images, skipped


def _hash(lines: Sequence[str]) -> str:
    """Hash by which another run notices other files (by name and size) or images."""
    return hashlib.sha256(os.fsencode("\n".join(lines))).hexdigest()[:16]
