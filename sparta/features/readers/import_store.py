"""From features extracted by other software to a feature store."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from sparta.disk import check_room, full_disk_reported
from sparta.errors import InputError
from sparta.features.readers.base import FeatureReader
from sparta.features.record import ImageFeatures
from sparta.features.skipped import SKIPPED, Skipped
from sparta.features.store import FeatureStore
from sparta.features.writer import SHARD_SIZE, StoreWriter
from sparta.image_ids import check_id
from sparta.lock import writing
from sparta.progress import Progress, no_progress


def import_features(
    reader: FeatureReader,
    out: Path,
    progress: Progress = no_progress,
    skip_bad: bool = False,
) -> FeatureStore:
    """Write a reader's images into a store, a shard at a time in memory.

    A run that was killed, or ended at a malformed image, continues when it is called again.

    Args:
        reader: the reader of the files.
        out: folder of the store.
        progress: called with the stage "import", images done and all images.
        skip_bad: whether a malformed image is left out and listed in `out/skipped.jsonl`.

    Raises:
        InputError: if an image is malformed and not to be skipped, all are, `out` holds features
            of other inputs, another process is writing it, or the disk has too little room.
    """
    images = len(reader.ids)
    files = [f"{path.resolve()}\0{path.stat().st_size}" for path in reader.files]
    listing = {
        "files": f"{len(files)} with hash {_hash(files)}",
        "images": f"{images} with hash {_hash(reader.ids)}",
    }
    with writing(out), full_disk_reported(out):
        return _write(reader, out, listing, progress, skip_bad)


def _write(
    reader: FeatureReader, out: Path, listing: dict[str, str], progress: Progress, skip_bad: bool
) -> FeatureStore:
    writer = StoreWriter(out, reader.source, inputs=listing)
    images = len(reader.ids)
    if writer.complete:
        return FeatureStore.open(out)
    for start in range(writer.done * SHARD_SIZE, images, SHARD_SIZE):
        rows = range(start, min(start + SHARD_SIZE, images))
        writer.write_shard(*_read(reader, rows, skip_bad))
        check_room(out, (images - rows.stop) * writer.shard_bytes // SHARD_SIZE)
        progress("import", rows.stop, images)
    if not writer.images:
        raise InputError(f"no image could be used; {out / SKIPPED} says why")
    return writer.finish()


def _read(
    reader: FeatureReader, rows: range, skip_bad: bool
) -> tuple[list[ImageFeatures], list[Skipped]]:
    """The images of some rows, and those that are malformed."""
    images: list[ImageFeatures] = []
    skipped: list[Skipped] = []
    for row in rows:
        try:
            image = reader[row]
            check_id(image.image_id)
            images.append(image)
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
