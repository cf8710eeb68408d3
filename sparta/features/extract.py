"""The offline job from a folder of photos to a feature store."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.backbone import Backbone, Encoder
from sparta.features.photos import Decoder, Photo, View, find_photos
from sparta.features.pixels import PixelPatches
from sparta.features.record import ImageFeatures
from sparta.features.workers import Decoded, decode_all
from sparta.features.writer import SHARD_SIZE, SKIPPED, Skipped, StoreWriter

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ExtractReport:
    """What an extraction did.

    Attributes:
        images: in the store.
        skipped: photos that could not be used, listed in `skipped.jsonl`.
        seconds: this run took.
        reused: photos an earlier run had already seen to.
    """

    images: int
    skipped: int
    seconds: float
    reused: int


def extract_photos(
    photos: Path,
    out: Path,
    backbone: str,
    *,
    image_size: int | None = None,
    labels: int = 0,
    view: str = "plain",
    device: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> ExtractReport:
    """Turn every photo of a folder into regions, the whole photo last.

    A run that was killed continues when it is called again in the same way, and ends with the
    same bytes as an unbroken one; batches never span shards.

    Args:
        photos: folder, searched at any depth.
        out: folder of the store.
        backbone: hub name or folder of a vision network, or "pixels".
        image_size: side of the square the photos are stretched to; None for the backbone's own.
        labels: classes of the backbone's classifier that name the whole photo.
        view: "plain", "flip" or "crop:SEED".
        device: "auto" takes a GPU if there is one.
        batch_size: photos per pass of the backbone; by default what suits the device.
        workers: decoding processes, one fewer than cores by default, 0 for none.
        progress: called with the photos done and all photos.

    Raises:
        InputError: if there is nothing to extract, no photo can be used, the backbone does not
            fit, or `out` holds features of other inputs.
    """
    started = time.perf_counter()
    chosen = View(view)
    ids = find_photos(photos)
    encoder = load_encoder(backbone, image_size, labels, device)
    listing = {"files": f"{len(ids)} with hash {_listing_hash(photos, ids)}"}
    writer = StoreWriter(out, encoder.source, photos=photos, view=view, inputs=listing)
    shards = _split(ids, SHARD_SIZE)
    reused = sum(len(shard) for shard in shards[: writer.done])
    report = progress or (lambda _done, _total: None)
    report(reused, len(ids))
    decoder = Decoder(photos, encoder.source.image_size, encoder.resample, chosen)
    plan = [_split(shard, batch_size or encoder.batch_size) for shard in shards[writer.done :]]
    _fill(writer, encoder, decoder, plan, workers, lambda done: report(reused + done, len(ids)))
    if not writer.images:
        raise InputError(f"{photos}: no photo could be used; {out / SKIPPED} says why")
    writer.finish()
    return ExtractReport(writer.images, writer.skipped, time.perf_counter() - started, reused)


def _split(ids: list[str], size: int) -> list[list[str]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _fill(
    writer: StoreWriter,
    encoder: Encoder,
    decoder: Decoder,
    plan: list[list[list[str]]],
    workers: int | None,
    report: Callable[[int], None],
) -> None:
    """Write one shard for each list of batches in the plan."""
    # The network keeps a core busy; a worker for that one too would slow both.
    count = max(1, min(16, (os.cpu_count() or 1) - 1)) if workers is None else workers
    done = 0
    with closing(decode_all(decoder, chain.from_iterable(plan), count)) as decoded:
        for batches in plan:
            images: list[ImageFeatures] = []
            skipped: list[Skipped] = []
            for batch in islice(decoded, len(batches)):
                good, bad = encode_batch(encoder, batch)
                images += good
                skipped += bad
                done += len(batch)
                report(done)
            writer.write_shard(images, skipped)


def load_encoder(backbone: str, image_size: int | None, labels: int, device: str) -> Encoder:
    """Raw pixel patches or a pretrained network.

    Raises:
        InputError: if it cannot be used.
    """
    if backbone != "pixels":
        return Backbone(backbone, image_size, labels, device)
    if labels:
        raise InputError("--labels needs a backbone with a classifier; pixels has none")
    return PixelPatches(image_size)


def encode_batch(encoder: Encoder, batch: Decoded) -> tuple[list[ImageFeatures], list[Skipped]]:
    """Regions of a batch's photos; those of other photos, and why each is skipped."""
    photos = [entry for entry in batch if isinstance(entry, Photo)]
    skipped = [entry for entry in batch if isinstance(entry, Skipped)]
    if not photos:
        return [], skipped
    features, labels = encoder.encode(np.stack([photo.pixels for photo in photos]))
    boxes = grid_boxes(*encoder.grid)
    images = []
    for photo, rows, label in zip(photos, features, labels, strict=True):
        if not np.isfinite(rows).all():
            skipped.append(Skipped(photo.image_id, "the backbone's output exceeds float16"))
            continue
        n = len(rows)
        images.append(
            ImageFeatures(
                photo.image_id,
                rows,
                boxes,
                ("",) * (n - 1) + (label,),
                ("",) * n,
                photo.width,
                photo.height,
            )
        )
    return images, skipped


def grid_boxes(rows: int, columns: int) -> NDArray[np.float32]:
    """[rows * columns + 1, 4] boxes of a grid's cells, row by row, and of the whole photo."""
    y, x = np.divmod(np.arange(rows * columns), columns)
    corners = [x / columns, y / rows, (x + 1) / columns, (y + 1) / rows]
    cells = np.stack(corners, axis=1).astype(np.float32)
    return np.concatenate([cells, np.array([[0, 0, 1, 1]], np.float32)])


def _listing_hash(folder: Path, ids: list[str]) -> str:
    """Hash of names and sizes, to notice other photos without reading them."""
    digest = hashlib.sha256()
    for image_id in ids:
        try:
            size = (folder / image_id).stat().st_size
        except OSError:
            size = -1
        digest.update(os.fsencode(f"{image_id}\0{size}\0"))
    return digest.hexdigest()[:16]
