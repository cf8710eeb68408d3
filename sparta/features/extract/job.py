"""The offline job from a folder of photos to a feature store."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path

import numpy as np

from sparta.ahead import work_ahead
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.decode_pool import Decoded, decode_all, default_workers
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.extractor import Extractor, load_extractor
from sparta.features.extract.photos import Decoder, Photo, find_photos
from sparta.features.record import ImageFeatures
from sparta.features.skipped import SKIPPED, Skipped
from sparta.features.writer import SHARD_SIZE, StoreWriter
from sparta.lock import writing
from sparta.progress import Progress, no_progress

# Of an extraction's progress; texts and units for its bars.
EXTRACT_STAGES = {
    "convert": ("Converting the network", "networks"),
    "extract": ("Extracting features", "photos"),
}


@dataclass(frozen=True)
class ExtractReport:
    """What an extraction did.

    Attributes:
        images: images in the store.
        skipped: photos that could not be used, listed in `skipped.jsonl`.
        seconds: duration of this run.
        reused: photos processed by an earlier run.
    """

    images: int
    skipped: int
    seconds: float
    reused: int


def extract_photos(
    photos: Path,
    out: Path,
    backbone: str | None,
    *,
    detection: DetectorSettings | None = None,
    image_size: int | None = None,
    labels: int = 0,
    grid: int | None = None,
    augmentation: str = "plain",
    device: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    progress: Progress = no_progress,
) -> ExtractReport:
    """Turn every photo of a folder into regions, the whole photo last.

    A run that was killed continues when it is called again in the same way, and ends with the
    same bytes as an unbroken one; batches never span shards.

    Args:
        photos: folder, searched at any depth.
        out: folder of the store.
        backbone: hub name or folder of a vision network, or "pixels"; None where a detector
            gives the vectors too.
        detection: the detector whose regions to take, None for a grid.
        image_size: side of the square the photos are stretched to; None for the backbone's own.
        labels: classes of the backbone's classifier that name the whole photo.
        grid: cells on a side that the backbone's cells are averaged to; None for all of them.
        augmentation: "plain", "flip" or "crop:SEED".
        device: "auto" takes a GPU if there is one.
        batch_size: photos per pass of the backbone; by default what suits the device.
        workers: decoding processes, by default as many as cores, at most 16; 0 for none.
        progress: stage "extract", in photos, and "convert" where the backbone is converted.

    Raises:
        InputError: if there is nothing to extract, no photo can be used, the backbone does not
            fit, `out` holds features of other inputs, or another process is writing it.
    """
    started = time.perf_counter()
    chosen = Augmentation(augmentation)
    ids = find_photos(photos)
    extractor = load_extractor(backbone, detection, image_size, labels, device, grid, progress)
    listing = {"files": f"{len(ids)} with hash {listing_hash(photos, ids)}"}
    with writing(out):
        writer = StoreWriter(
            out, extractor.source, photos=photos, augmentation=augmentation, inputs=listing
        )
        shards = _split(ids, SHARD_SIZE)
        reused = sum(len(shard) for shard in shards[: writer.done])
        progress("extract", reused, len(ids))
        decoder = extractor.decoder(photos, chosen)
        plan = [
            _split(shard, batch_size or extractor.batch_size) for shard in shards[writer.done :]
        ]

        def report(done: int) -> None:
            progress("extract", reused + done, len(ids))

        _fill(writer, extractor, decoder, plan, workers, report)
        if not writer.images:
            raise InputError(f"{photos}: no photo could be used; {out / SKIPPED} says why")
        writer.finish()
    return ExtractReport(writer.images, writer.skipped, time.perf_counter() - started, reused)


def _split(ids: list[str], size: int) -> list[list[str]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _fill(
    writer: StoreWriter,
    extractor: Extractor,
    decoder: Decoder,
    plan: list[list[list[str]]],
    workers: int | None,
    report: Callable[[int], None],
) -> None:
    """Write one shard for each list of batches in the plan."""
    count = default_workers() if workers is None else workers
    done = 0
    with (
        closing(decode_all(decoder, chain.from_iterable(plan), count)) as decoded,
        closing(work_ahead(partial(_regions, extractor), decoded)) as computed,
    ):
        for batches in plan:
            images: list[ImageFeatures] = []
            skipped: list[Skipped] = []
            for good, bad in islice(computed, len(batches)):
                images += good
                skipped += bad
                done += len(good) + len(bad)
                report(done)
            writer.write_shard(images, skipped)


def _regions(extractor: Extractor, batch: Decoded) -> tuple[list[ImageFeatures], list[Skipped]]:
    """Regions of a batch's photos, and the photos skipped, each with its reason."""
    photos = [entry for entry in batch if isinstance(entry, Photo)]
    skipped = [entry for entry in batch if isinstance(entry, Skipped)]
    images = []
    for image in extractor(photos) if photos else []:
        if np.isfinite(image.features).all():
            images.append(image)
        else:
            skipped.append(Skipped(image.image_id, "the network's output exceeds float16"))
    return images, skipped


def listing_hash(folder: Path, ids: list[str]) -> str:
    """Hash of names and sizes, to notice other photos without reading them."""
    digest = hashlib.sha256()
    for image_id in ids:
        try:
            size = (folder / image_id).stat().st_size
        except OSError:
            size = -1
        digest.update(os.fsencode(f"{image_id}\0{size}\0"))
    return digest.hexdigest()[:16]
