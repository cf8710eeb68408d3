"""The offline job from a folder of photos to a feature store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from sparta.addresses import is_remote
from sparta.cluster import Cluster
from sparta.disk import check_room, full_disk_reported
from sparta.errors import InputError
from sparta.features.extract.augmentations import Augmentation
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.extractor import load_extractor
from sparta.features.extract.listing import file_stamps, links_outside, listing_hash
from sparta.features.extract.photos import find_photos, not_utf8
from sparta.features.extract.workers import Batches, PhotoWorker, Regions, extract_on
from sparta.features.skipped import SKIPPED, Skipped
from sparta.features.writer import SHARD_SIZE, StoreWriter
from sparta.image_ids import id_problem
from sparta.lock import writing
from sparta.progress import Notice, Progress, no_notice, no_progress

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


class ShardPlan(NamedTuple):
    """What goes into a shard.

    Attributes:
        kept: ids of photos whose features are there already.
        batches: ids of the others.
    """

    kept: list[str]
    batches: Batches


def extract_photos(
    photos: Path,
    out: Path,
    backbone: str | None,
    *,
    ids: Sequence[str] | None = None,
    detection: DetectorSettings | None = None,
    image_size: int | None = None,
    labels: int = 0,
    grid: int | None = None,
    augmentation: str = "plain",
    device: str = "auto",
    batch_size: int | None = None,
    workers: int | None = None,
    cluster: Cluster | None = None,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
) -> ExtractReport:
    """Turn every photo of a folder into regions, the whole photo last.

    A run that was killed continues when it is called again in the same way, and ends with the
    same bytes as an unbroken one; batches never span shards. Where photos were added, replaced or
    removed since, features of those with the same name, size and time of modification are kept.

    Args:
        photos: folder, searched at any depth.
        out: folder of the store.
        backbone: hub name or folder of a vision network, or "pixels"; None where a detector
            gives the vectors too.
        ids: of the photos to take, sorted; None for all that the folder has.
        detection: the detector whose regions to take, None for a grid.
        image_size: side of the square the photos are stretched to; None for the backbone's own.
        labels: classes of the backbone's classifier that name the whole photo.
        grid: cells on a side that the backbone's cells are averaged to; None for all of them.
        augmentation: "plain", "flip" or "crop:SEED".
        device: "auto" takes a GPU if there is one.
        batch_size: photos per pass of the backbone; by default what suits the device.
        workers: decoding processes, by default as many as cores, at most 16; 0 for none.
        cluster: whose workers turn photos into regions, shard by shard, with the same result;
            None for this process.
        progress: stage "extract", in photos, and "convert" where the backbone is converted.
        notice: is called with one line if photos have changed, or lead out of the folder.

    Raises:
        InputError: if there is nothing to extract, no photo can be used, the backbone does not
            fit, `out` holds features of another backbone or of other photos altogether, another
            process is writing it, or the disk has too little room.
    """
    started = time.perf_counter()
    chosen = Augmentation(augmentation)
    ids = find_photos(photos) if ids is None else list(ids)
    if not is_remote(photos) and (unnamed := not_utf8(os.path.realpath(photos))):
        raise InputError(f"{unnamed.image_id}: the path is not UTF-8; rename the folder")
    if outside := links_outside(photos, ids):
        notice(
            f"{photos}: {outside:,} of {len(ids):,} photos are links that lead out of the folder; "
            "a server will not show them"
        )
    load = partial(load_extractor, backbone, detection, image_size, labels, device, grid)
    extractor = load(progress)
    stamps = file_stamps(photos, ids)
    listing = {"files": f"{len(ids)} with hash {listing_hash(stamps)}"}
    with writing(out), full_disk_reported(out):
        writer = StoreWriter(
            out,
            extractor.source,
            photos=photos,
            augmentation=augmentation,
            inputs=listing,
            stamps=stamps,
        )
        if writer.unchanged.changes:
            notice(f"{photos}: {writer.unchanged.changes}")
        plan = _plan(writer, ids, batch_size or extractor.batch_size)
        reused = len(ids) - sum(len(batch) for shard in plan for batch in shard.batches)

        def report(done: int) -> None:
            progress("extract", reused + done, len(ids))

        report(0)
        shards = [shard.batches for shard in plan]
        worker = PhotoWorker(extractor, photos, chosen, workers)
        if cluster is None:
            computed = worker(chain.from_iterable(shards))
        else:
            computed = extract_on(cluster, worker, load, shards)
        with closing(computed):
            _fill(writer, plan, computed, report)
        if not writer.images:
            raise InputError(f"{photos}: no photo could be used; {out / SKIPPED} says why")
        writer.finish()
    return ExtractReport(writer.images, writer.skipped, time.perf_counter() - started, reused)


def _plan(writer: StoreWriter, ids: list[str], size: int) -> list[ShardPlan]:
    """The shards that are not finished, in batches of a size."""
    left = _split(ids, SHARD_SIZE)[writer.done :]
    kept = [[one for one in own if one in writer.unchanged] for own in left]
    others = ([one for one in own if one not in writer.unchanged] for own in left)
    return [ShardPlan(k, _split(o, size)) for k, o in zip(kept, others, strict=True)]


def _split(ids: list[str], size: int) -> list[list[str]]:
    return [ids[start : start + size] for start in range(0, len(ids), size)]


def _fill(
    writer: StoreWriter,
    plan: list[ShardPlan],
    computed: Iterator[Regions],
    report: Callable[[int], None],
) -> None:
    """Write the shards of the plan."""
    done = 0
    for number, shard in enumerate(plan, start=1):
        images = [writer.unchanged[image_id] for image_id in shard.kept]
        skipped: list[Skipped] = []
        for good, bad in islice(computed, len(shard.batches)):
            images += good
            skipped += bad
            done += len(good) + len(bad)
            report(done)
        # The keys of a bucket are texts, of which some cannot be ids.
        problems = {one.image_id: id_problem(one.image_id) for one in images}
        skipped += [Skipped(key, f"the id {why}") for key, why in problems.items() if why]
        images = [one for one in images if not problems[one.image_id]]
        writer.write_shard(sorted(images, key=attrgetter("image_id")), skipped)
        check_room(writer.folder, (len(plan) - number) * writer.shard_bytes)
