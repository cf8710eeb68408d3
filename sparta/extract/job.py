"""The offline job from a folder of photos to a feature store."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np

from sparta.addresses import folder_at, id_problem, is_remote
from sparta.cluster import Cluster
from sparta.errors import InputError
from sparta.extract.extractor import Extractor, load_extractor
from sparta.extract.photos import (
    Augmentation,
    Decoded,
    Photo,
    decode_all,
    default_workers,
    list_photos,
    listing_hash,
)
from sparta.features.record import (
    BFLOAT16,
    SKIPPED,
    WARNING,
    DetectorSettings,
    FeatureSource,
    ImageFeatures,
    Skipped,
)
from sparta.features.store import HEADER, FeatureStore, Stamps, read_header
from sparta.features.writer import SHARD_SIZE, StoreWriter
from sparta.files import check_room, full_disk_reported, writing
from sparta.progress import Notice, Progress, no_notice, no_progress

# Of an extraction's progress; texts and units for its bars.
EXTRACT_STAGES = {
    "convert": ("Converting the network", "networks"),
    "extract": ("Extracting features", "photos"),
}
# Of a batch of photos: those that can be used, and the others, each with its reason.
Regions: TypeAlias = tuple[list[ImageFeatures], list[Skipped]]
Batches: TypeAlias = list[list[str]]  # image ids
Value = TypeVar("Value")
Result = TypeVar("Result")


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
    """What goes into a shard."""

    kept: list[str]
    batches: Batches


def extract_photos(
    photos: str | Path,
    out: str | Path,
    backbone: str | None,
    *,
    stamps: Stamps | None = None,
    needed: bool = True,
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
    bfloat16: bool = False,
    joint: bool = False,
) -> ExtractReport:
    """Turn every photo of a folder into regions, the whole photo last.

    A run that was killed continues when it is called again in the same way, and ends with the
    same bytes as an unbroken one; batches never span shards. Where photos were added, replaced or
    removed since, features of those with the same name, size and time of modification are kept.

    Args:
        photos: folder, searched at any depth, or its address (s3://bucket/photos).
        out: folder of the store.
        backbone: hub name or folder of a vision network, or "pixels"; None where a detector
            gives the vectors too.
        stamps: of the photos to take, as `list_photos` gives them; None for all of the folder.
        needed: whether it is an error that no photo can be used.
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
        bfloat16: as for `load_encoder`, unless there is a store at `out` in float32.
        joint: as for `load_encoder`.

    Raises:
        InputError: if there is nothing to extract, no photo can be used but one is needed, the
            backbone does not fit, `out` holds features of another backbone or of other photos
            altogether, another process is writing it, or the disk has too little room.
    """
    started = time.perf_counter()
    photos, out = folder_at(photos), Path(out)
    chosen = Augmentation(augmentation)
    if stamps is None:
        stamps = list_photos(photos, notice=notice)
    if bfloat16 and (out / HEADER).is_file():
        bfloat16 = FeatureSource(**read_header(out)["source"]).precision == BFLOAT16
    sizes = image_size, labels, device, grid, bfloat16
    load = partial(load_extractor, backbone, detection, *sizes, joint=joint)
    extractor = load(progress=progress)
    inputs = {"files": f"{len(stamps)} with hash {listing_hash(stamps)}"}
    with writing(out), full_disk_reported(out):
        writer = StoreWriter(
            out,
            extractor.source,
            photos,
            augmentation=augmentation,
            inputs=inputs,
            stamps=stamps,
        )
        if writer.unchanged.changes:
            notice(f"{photos}: {writer.unchanged.changes}")
        plan, count = _plan(writer, list(stamps), batch_size or extractor.batch_size), len(stamps)
        reused = count - sum(len(batch) for shard in plan for batch in shard.batches)

        def report(done: int) -> None:
            progress("extract", reused + done, count)

        report(0)
        shards = [shard.batches for shard in plan]
        worker = PhotoWorker(extractor, photos, chosen, workers, notice)
        if cluster is None:
            computed = worker(chain.from_iterable(shards))
        else:
            computed = extract_on(cluster, worker, load, shards)
        with closing(computed):
            _fill(writer, plan, computed, report)
        if needed and not writer.images:
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
            done += len(good) + sum(not one.warning for one in bad)
            report(done)
        # The keys of a bucket are texts, of which some cannot be ids.
        problems = {one.image_id: id_problem(one.image_id) for one in images}
        skipped += [Skipped(key, f"the id {why}") for key, why in problems.items() if why]
        images = [one for one in images if not problems[one.image_id]]
        writer.write_shard(sorted(images, key=attrgetter("image_id")), skipped)
        check_room(writer.folder, (len(plan) - number) * writer.shard_bytes)


@dataclass(frozen=True)
class PhotoWorker:
    """Turns photos of a folder into regions."""

    extractor: Extractor
    photos: Path
    augmentation: Augmentation
    processes: int | None
    notice: Notice = no_notice

    def __call__(self, batches: Iterable[list[str]]) -> Generator[Regions]:
        """The regions of batches of photos, in order; later ones are decoded meanwhile."""
        decoder = self.extractor.decoder(self.photos, self.augmentation)
        count = default_workers() if self.processes is None else self.processes
        with (
            closing(decode_all(decoder, batches, count, self.notice)) as decoded,
            closing(work_ahead(partial(_regions, self.extractor), decoded)) as computed,
        ):
            yield from computed


def extract_on(
    cluster: Cluster, worker: PhotoWorker, load: Callable[[], Extractor], shards: list[Batches]
) -> Generator[Regions]:
    """The regions of all batches of some shards, a shard by one worker of a cluster.

    Its machines have the photos under the same path, and load the same extractor.
    """
    source, about = worker.extractor.source, (worker.photos, worker.augmentation)
    open_worker = partial(_open_worker, load, source, *about, worker.processes)
    for found in cluster.map(open_worker, _extract_shard, shards):
        yield from found


def _open_worker(
    load: Callable[[], Extractor],
    source: FeatureSource,
    photos: Path,
    augmentation: Augmentation,
    processes: int | None,
) -> PhotoWorker:
    """A worker of a cluster."""
    extractor = load()
    differences = source.differences(extractor.source)
    if source.precision != extractor.source.precision:
        differences.append(f"precision: {source.precision} against {extractor.source.precision}")
    if differences:
        raise InputError(
            "the features would be others than on the machine that asked (wanted against found): "
            + "; ".join(differences)
        )
    return PhotoWorker(extractor, photos, augmentation, processes)


def _extract_shard(worker: PhotoWorker, batches: Batches) -> list[Regions]:
    """The regions of a shard's batches; InputError if the machine has none of the photos."""
    ids = list(chain.from_iterable(batches))
    if ids and all(_is_missing(worker.photos / image_id) for image_id in ids):
        raise InputError(
            f"{worker.photos} has none of the photos: give a folder that all machines share"
        )
    return list(worker(batches))


def _is_missing(path: Path) -> bool:
    """Whether nothing is there, not even a link that leads nowhere."""
    if is_remote(path):
        return not path.exists()
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _regions(extractor: Extractor, batch: Decoded) -> Regions:
    photos = [entry for entry in batch if isinstance(entry, Photo)]
    skipped = [entry for entry in batch if isinstance(entry, Skipped)]
    skipped += [Skipped(one.image_id, WARNING + one.warning) for one in photos if one.warning]
    images = []
    for image in extractor(photos) if photos else []:
        if np.isfinite(image.features).all():
            images.append(image)
        else:
            skipped.append(Skipped(image.image_id, "the network's output exceeds float16"))
    return images, skipped


def work_ahead(
    work: Callable[[Value], Result], values: Iterable[Value], threads: int = 2
) -> Generator[Result]:
    """The results of some work on each value, in order.

    While the reader is busy with one result, the threads work on the following. The values are
    drawn in the reader's thread, at most one more than there are threads ahead of it.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for value in values:
            waiting.append(pool.submit(work, value))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


# ---- test-time augmentations ---------------------------------------------------------------------


def augmentation_names(count: int) -> list[str]:
    """The first `count` augmentations: plain, flip, crop:1, crop:2, …; see `Augmentation`."""
    crops = [f"crop:{seed}" for seed in range(1, count - 1)]
    return ["plain", "flip", *crops][:count]


class ExtractOptions(TypedDict, total=False):
    """Options of `extract_photos` that are the same for all augmentations."""

    stamps: Stamps | None
    needed: bool
    detection: DetectorSettings | None
    image_size: int | None
    labels: int
    grid: int | None
    device: str
    cluster: Cluster | None
    bfloat16: bool
    joint: bool


def extract_augmented(
    photos: str | Path,
    out: str | Path,
    backbone: str | None,
    count: int,
    *,
    progress: Progress = no_progress,
    notice: Notice = no_notice,
    **options: Unpack[ExtractOptions],
) -> list[FeatureStore]:
    """Extract a folder of photos `count` times, into `out/plain`, `out/flip`, …; reuses stores.

    The plain photo is one of the `count`. Progress counts photos over all augmentations; all other
    arguments are those of `extract_photos`.
    """
    names, out = augmentation_names(count), Path(out)
    for number, name in enumerate(names):

        def overall(stage: str, done: int, total: int, before: int = number) -> None:
            if stage == "extract":
                done, total = before * total + done, len(names) * total
            progress(stage, done, total)

        told = no_notice if number else notice
        extract_photos(
            photos,
            out / name,
            backbone,
            augmentation=name,
            progress=overall,
            notice=told,
            **options,
        )
    return [FeatureStore.open(out / name) for name in names]
