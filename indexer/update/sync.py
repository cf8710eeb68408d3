"""Brings an index up to date with a folder of photos, once or as the folder changes."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from indexer import state
from indexer.encoding.features import extract_stores, feature_source, part_of
from indexer.manifest import Manifest, check_whole, index_folders, located, owner
from indexer.store.given import FormerImages
from indexer.store.snapshot import Snapshot
from indexer.update.images import add_images
from indexer.update.sync_plan import (
    LOCKED,
    Plan,
    Scan,
    Seen,
    SeenPhotos,
    SyncScope,
    choice_of,
    compare,
    content_hash,
    describe,
    described_again,
    move_and_delete,
    scan_photos,
    scope_of,
    synced_folders,
)
from sparta.errors import InputError
from sparta.extract.photos import DEFAULT, Choice, Stamp, stamp_of
from sparta.features.record import BFLOAT16, Skipped, read_skipped
from sparta.features.store import FeatureStore
from sparta.files import UnsureError, beside, work_folder, writing
from sparta.progress import Notice, Progress, no_notice, no_progress

AT_ONCE = 512  # photos after which the index has them, whatever happens then


@dataclass(frozen=True)
class Encoding:
    """How photos are encoded; see `add_images`."""

    models: Sequence[str | Path]
    frequencies: Path | None = None
    read_photos: bool = True
    batch_size: int = 32
    device: str = "auto"


@dataclass
class SyncReport:
    """What bringing an index up to date did, or would do.

    Attributes:
        plan: what was found.
        added: images that the index lacked.
        replaced: images of photos with other content.
        moved: images that have another id.
        deleted: images of photos that have vanished.
        described: images whose files beside the photo say something else.
        left_out: how many of the deleted photos are there, but left out.
        skipped: photos that could not be used, now or when they were last tried.
        aside: images whose photos show something else than what the user gave fields to.
        passed: how many photos are of formats that are not read, by format.
    """

    plan: Plan
    added: int = 0
    replaced: int = 0
    moved: int = 0
    deleted: int = 0
    described: int = 0
    left_out: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    aside: int = 0
    passed: Counter[str] = field(default_factory=Counter)

    @property
    def did(self) -> int:
        """How many images of the index are others than before."""
        return self.added + self.replaced + self.moved + self.deleted + self.described


class PhotoSync:
    """One index and one folder of photos; raises InputError if ids would not be clear."""

    def __init__(
        self,
        index: Path,
        photos: Path,
        encoding: Encoding,
        choice: Choice = DEFAULT,
        notice: Notice = no_notice,
    ) -> None:
        self._index, self._encoding = index, encoding
        check_whole(index)
        self.place: SyncScope = scope_of(index, photos, Manifest.of(index).photos)
        self._choice = choice_of(index, self.place.root, choice, notice)
        # Patterns of the last time delete nothing; given ones may, and count for the next time.
        self._given = self._choice is choice

    def scan(self) -> Scan:
        """The photos as they are now."""
        return scan_photos(*self.place, self._choice)

    def seen(self, scan: Scan) -> dict[str, Seen]:
        """What is known of the photos."""
        return self._all_seen(scan).of(self.place.below)

    def _all_seen(self, scan: Scan) -> SeenPhotos:
        found = SeenPhotos.open(self._index, self.place.root)
        found = found or as_built(self._index, self.place.root, scan)
        if new := scan.photos.keys() - found.photos.keys():
            former = FormerImages(self._index)
            for image_id in new:
                if former.is_deleted(image_id, scan.photos[image_id].bytes):
                    found.photos[image_id] = Seen(scan.photos[image_id])
        return found

    def run(
        self,
        *,
        scan: Scan | None = None,
        yes: bool = False,
        dry: bool = False,
        progress: Progress = no_progress,
    ) -> SyncReport:
        """Compare the photos with what was seen, and write what differs.

        What is written stays written when this is interrupted; the next run continues. `scan` is of
        the photos, by default as they are now; `yes` also writes if the folder is missing or empty,
        or many photos have vanished; `dry` writes nothing. Progress has the stages "convert", in
        networks, "extract" and "encode", in photos.

        Raises InputError if the folder is missing or empty or many photos have vanished, the index
        cannot be written to or the photos not be encoded as its own.
        """
        with writing(located(self._index) / LOCKED):
            self._began_at = state.place_of(self._index)
            scan = scan or self.scan()
            seen = self._all_seen(scan)
            kept = DEFAULT if self._given else self._choice
            plan = compare(self.place.root, scan, seen.of(self.place.below), kept)
            if plan.beside and self._encoding.read_photos:
                plan.described = described_again(self._index, self.place.root, plan.beside)
            if not yes:
                self._check(plan)
            self._check_ids(plan)
            unusable = plan.unusable | scan.problems
            report = SyncReport(plan, passed=scan.passed)
            report.skipped = [Skipped(*one) for one in unusable.items()]
            report.left_out = sum(os.path.lexists(self.place.root / one) for one in plan.vanished)
            if not dry:
                try:
                    self._write(plan, scan, seen, report, progress)
                except OSError as error:
                    changes = report.moved, report.deleted, report.described, report.added
                    if any((*changes, report.replaced)):  # these stay
                        raise UnsureError(error) from error
                    raise
            return report

    def _check(self, plan: Plan) -> None:
        alarm = plan.alarm(self.place.folder)
        if alarm is None and not plan.found:
            exists = self.place.folder.is_dir()
            alarm = f"{self.place.folder} {'holds no photo' if exists else 'does not exist'}"
        if alarm is not None:
            raise InputError(
                f"{alarm}: nothing was changed; mount the disk if it is on one, or give --yes if "
                "this is right"
            )

    def _check_ids(self, plan: Plan) -> None:
        """Refuse ids that photos of another folder have."""
        wanted = {*plan.new, *plan.moved}
        for root in synced_folders(self._index):
            other = SeenPhotos.open(self._index, root) if root != self.place.root else None
            if other and (both := wanted & other.photos.keys()):
                raise InputError(
                    f"{min(both)!r} is in {self.place.root} and in {root}: photos of two folders "
                    "cannot have one id; sync a folder that contains both"
                )

    def _write(
        self, plan: Plan, scan: Scan, seen: SeenPhotos, report: SyncReport, progress: Progress
    ) -> None:
        seen.photos |= plan.touched
        if not self.place.below and self._given:
            seen.choice = self._choice
        again: list[str] = []
        if plan.moved or plan.vanished:
            done = move_and_delete(self._index, plan.moved, plan.vanished, seen.photos)
            report.moved, report.deleted, again = done
            moved = {new: one for new, one in plan.moved.items() if new not in again}
            moved_photos = {new: seen.photos.pop(former) for new, former in moved.items()}
            for new, one in moved_photos.items():
                seen.photos[new] = one._replace(stamp=scan.photos[new])
            for image_id in plan.vanished + again:
                seen.photos.pop(image_id, None)
        if plan.described:
            report.described = describe(self._index, self.place.root, plan.described)
        beside = plan.beside.keys() - {*again} if self._encoding.read_photos else ()
        for image_id in beside:
            one = seen.photos[image_id]
            seen.photos[image_id] = one._replace(beside=scan.beside.get(image_id))
        self._save(seen)
        wanted = sorted(plan.new + plan.changed + again)
        for first in range(0, len(wanted), AT_ONCE):
            ids = wanted[first : first + AT_ONCE]
            part = part_of(progress, first, len(ids), len(wanted))
            self._encode(ids, scan, seen, report, part)
            self._save(seen)
            progress("encode", first + len(ids), len(wanted))
        left = [plan.moved[new] for new in again if plan.moved[new] not in scan.photos]
        if left:
            move_and_delete(self._index, {}, left, {})
            for image_id in left:
                del seen.photos[image_id]
            self._save(seen)

    def _save(self, seen: SeenPhotos) -> None:
        """Note what the index is up to date with, unless it is a copy by now that may lack it."""
        if state.place_of(self._index) != self._began_at:
            raise InputError(f"{self._index} was replaced meanwhile: run sparta sync again")
        seen.save(self._index)

    def _encode(
        self, ids: list[str], scan: Scan, seen: SeenPhotos, report: SyncReport, progress: Progress
    ) -> None:
        """Extract and encode some photos, and note them as seen."""
        hashes = {image_id: content_hash(self.place.root / image_id) for image_id in ids}
        with work_folder(beside(self._index, ".sync")) as work:
            stores, skipped = self._extract(ids, scan, work, progress)
            if len(stores[0]):
                how = self._encoding
                done = add_images(
                    self._index,
                    stores,
                    how.models,
                    frequencies=how.frequencies,
                    read_photos=how.read_photos,
                    batch_size=how.batch_size,
                    device=how.device,
                    progress=progress,
                )
                report.added += done.added
                report.replaced += done.replaced
                report.aside += done.aside
        report.skipped += skipped
        problems = {one.image_id: one.reason for one in skipped if not one.warning}
        for image_id in ids:
            # A file that was still being written is another one the next time; one that could not
            # be read to its end is tried again.
            stamp = scan.photos[image_id]
            if hashes[image_id] and stamp_of(self.place.root / image_id) == stamp:
                seen.photos[image_id] = Seen(
                    stamp, hashes[image_id], problems.get(image_id), scan.beside.get(image_id)
                )

    def _extract(
        self, ids: list[str], scan: Scan, work: Path, progress: Progress
    ) -> tuple[list[FeatureStore], list[Skipped]]:
        """The stores of some photos, and those that cannot be used."""
        manifest = Manifest.of(self._index)
        stores = extract_stores(
            self.place.root,
            feature_source(self._encoding.models, "visual_sparta"),
            work,
            {image_id: scan.photos[image_id] for image_id in ids},
            progress,
            augmentations=len(manifest.features),
            needed=False,
            device=self._encoding.device,
            bfloat16=manifest.precision == BFLOAT16,
        )
        return stores, read_skipped(stores[0].folder)


def as_built(index: Path, root: Path, scan: Scan) -> SeenPhotos:
    """The photos that an index has from its build.

    The build noted the size of each file; of imported features, metadata of the images has it, and
    which photos have vanished is unknown. A file of the same size counts as the
    same: times are often those of a copy, and encoding a whole library again takes hours. Where no
    size is known, files older than the index do.
    """
    noted = _recorded(index, root, scan)
    seen = _by_metadata(index, Manifest.of(index), scan) if noted is None else noted
    return SeenPhotos(root, seen, choice_of(index, root, DEFAULT))


def _recorded(index: Path, root: Path, scan: Scan) -> dict[str, Seen] | None:
    """As the build noted them, None if it did not."""
    built = SeenPhotos.open(index, root, built=True)
    if built is None:
        return None
    seen = {}
    for image_id, one in built.photos.items():
        now = scan.photos.get(image_id)
        if now or one.problem is None:  # else the index never had it
            same = now is not None and now.bytes == one.stamp.bytes
            seen[image_id] = one._replace(stamp=now) if now and same else one
    return seen


def _by_metadata(index: Path, manifest: Manifest, scan: Scan) -> dict[str, Seen]:
    """From the sizes that the index has in its metadata, and the time when it was built."""
    built = datetime.fromisoformat(manifest.created).timestamp() * 1e9
    seen = {}
    shards = [Snapshot.open(one) for one in index_folders(index)]
    for image_id, stamp in scan.photos.items():
        images = shards[owner(image_id, len(shards))]
        document = images.document(image_id)
        if document is not None:
            recorded = images.stored(document).metadata.get("bytes")
            if recorded == stamp.bytes or (recorded is None and stamp.mtime_ns <= built):
                seen[image_id] = Seen(stamp)
    return seen


SHARE = 0.1  # of the time in which the folder may be looked at


def watch(
    photos: PhotoSync,
    every: float,
    done: Callable[[SyncReport], None],
    notice: Notice,
    progress: Progress = no_progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring an index up to date whenever photos change, until interrupted.

    A photo counts once it has been the same twice, so that none is read while it is being copied.
    What prevents a run, such as a disk that is not mounted or another writer, is shown once, and
    tried again. `every` is seconds from one look to the next, more if looking takes long. `done`
    gets the report of every run that found something, or other bad photos than before, and `notice`
    a line for every problem.
    """
    before = photos.scan()
    problem = ""
    known: set[Skipped] | None = None
    while True:
        start = time.perf_counter()
        now = photos.scan()
        rest = max(every, (time.perf_counter() - start) / SHARE)
        try:
            settled = stable(now, before, photos.seen(now))
            report = photos.run(scan=settled, progress=progress)
        except (InputError, OSError) as error:
            if str(error) != problem:
                notice(str(error))
            problem = str(error)
        else:
            problem, skipped = "", set(report.skipped)
            # What cannot be read is tried each time, and said once.
            news = skipped != known and (report.plan or known is not None)
            if report.did or report.plan.touched or news:
                done(report)
            known = skipped
        before = now
        pause(rest)


def stable(now: Scan, before: Scan, seen: Mapping[str, Seen]) -> Scan:
    """A scan in which photos that are changing are as they were `seen`.

    `before` is the scan some seconds earlier.
    """
    photos: dict[str, Stamp] = {}
    changing = {one for one, stamp in now.photos.items() if stamp != before.photos.get(one)}
    # One of these may be a photo that has vanished from another place.
    arriving = not changing <= seen.keys()
    for image_id in sorted({*now.photos, *before.photos, *seen}):
        stamp = now.photos.get(image_id)
        vanished = image_id not in now.photos
        if image_id in changing or (vanished and (arriving or image_id in before.photos)):
            stamp = seen[image_id].stamp if image_id in seen else None
        if stamp is not None and image_id not in now.problems:
            photos[image_id] = stamp
    beside = {}
    for image_id in photos:
        beside[image_id] = said = now.beside.get(image_id)
        if image_id in seen and said != before.beside.get(image_id):
            beside[image_id] = seen[image_id].beside
    return Scan(photos, now.closed, now.problems, now.passed, beside)
