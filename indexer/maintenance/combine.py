"""Makes one index of several, shards of one, and one segment of an index's segments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from indexer.dense.manifest import dense_names
from indexer.fields.kinds import DECLARED, Kind, read_kinds, save_kinds
from indexer.index_writer import FIRST, finish_index, write_lucene
from indexer.maintenance.copies import (
    copy_index,
    link_file,
    link_uploads,
    put,
    renew,
    replacing,
)
from indexer.manifest import (
    LUCENE,
    OFFSETS,
    SYNC,
    Manifest,
    ShardsManifest,
    check_whole,
    index_folders,
    located,
    owner,
    shard_name,
)
from indexer.postings import QuantisationReport
from indexer.settings import IndexSettings
from indexer.state import bytes_below
from indexer.store.commit import LOGS, read_commit, segment_folder
from indexer.store.compaction import Sources, combine, sources_of
from indexer.store.given import Record, read_given, write_given
from indexer.store.memtable import NewImage
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.features.record import SKIPPED
from sparta.files import (
    check_name,
    check_room,
    full_disk_reported,
    sha256,
    work_folder,
)
from sparta.progress import Progress, no_progress

ALIKE = (
    "models",
    "vocabulary",
    "top_n",
    "bits",
    "scale",
    "offset",
    "terms",
    "frequencies",
    "frequency_power",
    "precision",
    "rerank",
)


def merge_segments(index: Path, progress: Progress = no_progress) -> int:
    """Make one segment of an index, without deleted images, and write Lucene's index anew.

    Returns the number of images. Raises InputError if the index is damaged, another process writes
    it or the disk is full.
    """
    renew(index, LUCENE)
    with full_disk_reported(index), open_writer(index) as writer:
        writer.merge(progress)
        for folder in index_folders(index):
            write_lucene(folder, progress)
        writer.tidy()
        return len(writer)


def split_index(
    index: Path,
    out: Path,
    shards: int | None,
    progress: Progress = no_progress,
    lucene: bool = True,
) -> None:
    """Write the images of an index as shards, by a hash of their ids; `out` must not exist.

    The index may be in shards; None writes a whole one. `lucene` is whether Lucene's form is
    written of each, where it is installed. Progress has the stages "copy", "columns", "write" and
    "merge", in images. Raises InputError if the index is damaged, or a shard would have no image.
    """
    folders = index_folders(index)
    _write(folders, out, shards, _kinds(folders), "", progress, lucene)


def _write(
    folders: Sequence[Path],
    out: Path,
    shards: int | None,
    kinds: Mapping[str, Kind],
    photos: str | None,
    progress: Progress,
    lucene: bool = True,
) -> int:
    """Write the images of plain indexes; `photos` as for `write_combined`. Returns how many."""
    snapshots, owners = [Snapshot.open(folder) for folder in folders], []
    for one in snapshots:
        owners.append(np.full(one.documents, -1, np.int32))  # of deleted images
        live = one.live_documents()
        ids = (one.stored(int(document)).image_id for document in live)
        owners[-1][live] = np.fromiter((owner(key, shards or 1) for key in ids), np.int32)
    counts = [sum(int((own == n).sum()) for own in owners) for n in range(shards or 1)]
    if shards and 0 in counts:
        raise InputError(
            f"--shards {shards}: of {sum(counts)} images none is in shard {counts.index(0)}; make "
            "fewer shards"
        )
    done = 0
    for number, count in enumerate(counts):

        def part(stage: str, own: int, of: int, before: int = done, count: int = count) -> None:
            progress(stage, before + own * count // max(1, of), sum(counts))

        parts = [sources_of(one, own == number) for one, own in zip(snapshots, owners, strict=True)]
        folder = out / shard_name(number) if shards else out
        write_combined(folder, snapshots, parts, kinds, photos, part)
        if lucene:
            write_lucene(folder, part)
        done += count
    if shards:
        ShardsManifest(
            package_version=version("visualsparta"),
            created=datetime.now(UTC).isoformat(timespec="microseconds"),
            images=done,
            shards=[shard_name(number) for number in range(shards)],
            parts={},
        ).save(out)
    return done


def merge_indexes(
    indexes: Sequence[Path],
    out: Path | None,
    shards: int = 1,
    progress: Progress = no_progress,
) -> int:
    """Write an index with the images of several, or of one with another number of shards.

    If `out` is None, it takes the place of the one at the end: searches go on, nobody writes
    meanwhile. What users gave is kept, of one index what `sparta sync` has seen as well. Several
    are taken as of now, while they are written to. Progress has the stages "copy", "columns",
    "write" and "merge", in images.

    Returns how many images there are. Raises InputError if two indexes encode images differently or
    have an image of the same id, one is damaged or has dense parts, there is something at `out`, a
    shard would have no image, or the disk has too little room.
    """
    if out is None:
        check_whole(indexes[0])
        place = indexes[0].resolve()  # an alias stands for it
    else:
        check_name(place := out)
    indexes = [*map(located, indexes)]
    folders = [folder for index in indexes for folder in index_folders(index)]
    manifests = [Manifest.open(folder) for folder in folders]
    _check_alike(folders, manifests)
    kinds, photos = _kinds(folders), {manifest.photos for manifest in manifests}
    with replacing(place) as target, full_disk_reported(place), work_folder(target) as work:
        if out and os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder")
        check_room(place, 2 * sum(map(bytes_below, indexes)))
        # Copies, which no writer changes, with all that was acknowledged.
        copies = [work / f"copy-{number}" for number in range(len(indexes))]
        for index, copy in zip(indexes, copies, strict=True):
            copy_index(index, copy)
        copied = [folder for copy in copies for folder in index_folders(copy)]
        for folder in copied:
            if (folder / LOGS).is_dir():
                with open_writer(folder, shard=True):
                    pass  # which applies the log
        snapshots = [Snapshot.open(folder) for folder in copied]
        if len(indexes) > 1:
            _check_distinct(folders, snapshots)
        made, common = work / "index", photos.pop() if len(photos) == 1 else None
        divided = shards if shards > 1 else None
        images = _write(copied, made, divided, kinds, common, progress)
        for copy in copies:
            link_uploads(copy, made)
        write_given(made, _given(copied, snapshots))
        if len(indexes) == 1:
            for path in [*(copies[0] / SYNC).glob("*"), *indexes[0].glob(SKIPPED)]:
                link_file(path, made / (SYNC if path.name != SKIPPED else "") / path.name)
        put(made, place, target, work)
    return images


def write_combined(
    folder: Path,
    snapshots: Sequence[Snapshot],
    parts: Sequence[tuple[Sources, list[NewImage]]],
    kinds: Mapping[str, Kind],
    photos: str | None,
    progress: Progress,
) -> None:
    """Write an index of images of some commits, as it would have been built of them.

    It has the settings, offsets and words of the first, and its folder of photos if `photos` is "".
    Progress has the stages "copy" and "columns", in images.
    """
    manifest, like = snapshots[0].place.manifest, snapshots[0].place.folder
    folder.mkdir(parents=True)
    for name in manifest.parts.keys() - {DECLARED}:
        link_file(like / name, folder / name)
    save_kinds(folder, kinds)
    sources = list(chain.from_iterable(own for own, _ in parts))
    newest = [image for _, own in parts for image in own]
    shape = len(np.load(like / OFFSETS, allow_pickle=False)), manifest.bits
    frequencies = combine(segment_folder(folder, FIRST), sources, newest, shape, kinds, progress)
    count = sum(int(wanted.sum()) for _, wanted in sources) + len(newest)
    values = {field.name: getattr(manifest, field.name) for field in fields(IndexSettings)}
    if photos != "":
        values["photos"] = photos
    settings = IndexSettings(**values)
    # What quantising cost is not known again: it is that of the index alike.
    error = manifest.mean_error * int(frequencies.sum())
    report = QuantisationReport(0, error, manifest.largest_error)
    about = manifest.vocabulary, settings, manifest.scale
    made = finish_index(folder, count, frequencies, report, *about)
    replace(made, created=manifest.created).save(folder)  # for `sparta sync`
    if versions := sum(one.commit.version for one in snapshots):  # no version comes twice
        commit = read_commit(folder)
        replace(commit, version=versions + 1, lineage=uuid4().hex).save(folder)


def _given(indexes: Sequence[Path], snapshots: Sequence[Snapshot]) -> Record:
    """What the user gave: of an image as its index says, else as one from which it was deleted."""
    found = [
        (snapshot.document(image_id) is not None, given[-1].deleted, image_id, given)
        for index, snapshot in zip(indexes, snapshots, strict=True)
        for image_id, given in read_given(index, committed=True).items()
    ]
    return {image_id: given for *_, image_id, given in sorted(found, key=itemgetter(0, 1))}


def _check_distinct(indexes: Sequence[Path], snapshots: Sequence[Snapshot]) -> None:
    there: dict[str, Path] = {}
    for index, snapshot in zip(indexes, snapshots, strict=True):
        for document in snapshot.live_documents().tolist():
            image_id = snapshot.stored(document).image_id
            if image_id in there:
                raise InputError(
                    f"{image_id!r} is in {there[image_id]} and in {index}: delete it from one of "
                    "them"
                )
            there[image_id] = index


def _check_alike(indexes: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    first = indexes[0]
    for index, manifest in zip(indexes, manifests, strict=True):
        if names := dense_names(index):
            raise InputError(f"{index} has dense parts ({', '.join(names)}), which do not merge")
        for difference in _differences(index, manifest, first, manifests[0]):
            raise InputError(f"{index} cannot be merged with {first}: {difference}")


def _differences(one: Path, its: Manifest, other: Path, wanted: Manifest) -> Iterator[str]:
    for name in ALIKE:
        if getattr(its, name) != getattr(wanted, name):
            found, expected = _short(getattr(its, name)), _short(getattr(wanted, name))
            yield f"its {name} is {found} instead of {expected}"
    if (count := len(its.features)) != len(wanted.features):
        yield f"it has {count} augmentations of each photo instead of {len(wanted.features)}"
    if sha256(one / OFFSETS) != sha256(other / OFFSETS):
        yield "its offsets are those of other photos; build one index of all"


def _short(value: Any) -> str:
    return ", ".join(one[:12] for one in value) if isinstance(value, list) else str(value)[:20]


def _kinds(indexes: Sequence[Path]) -> Mapping[str, Kind]:
    """Declared kinds of fields; raises InputError if two indexes declare different ones."""
    found: dict[str, Kind] = {}
    for index in indexes:
        for name, kind in read_kinds(index).items():
            if found.setdefault(name, kind) != kind:
                raise InputError(
                    f"{index} declares the field {name!r} as {kind}, another index as {found[name]}"
                )
    return found
