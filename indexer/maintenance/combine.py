"""Makes one index of several, shards of one, and one segment of an index's segments."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.dense.manifest import dense_names
from indexer.fields.kinds import DECLARED, Kind, read_kinds, save_kinds
from indexer.index_writer import FIRST, finish_index, write_lucene
from indexer.maintenance.copies import link_file, link_uploads, renew
from indexer.manifest import (
    LUCENE,
    OFFSETS,
    Manifest,
    ShardsManifest,
    index_folders,
    located,
    owner,
    shard_name,
)
from indexer.postings import QuantisationReport
from indexer.settings import IndexSettings
from indexer.state import bytes_below
from indexer.store.commit import segment_folder
from indexer.store.compaction import Sources, combine, sources_of
from indexer.store.given import read_given, write_given
from indexer.store.memtable import NewImage
from indexer.store.snapshot import Snapshot
from indexer.update.writer import open_writer
from sparta.errors import InputError
from sparta.files import (
    check_name,
    check_room,
    full_disk_reported,
    replace_folder,
    sha256,
    work_folder,
    writing,
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


def split_index(whole: Path, out: Path, shards: int, progress: Progress = no_progress) -> None:
    """Write the images of an index as shards, by a hash of their ids; `out` must not exist.

    Progress has the stage "divide", in images. Raises InputError if the index was written to or is
    damaged, or a shard would have no image.
    """
    snapshot = Snapshot.open(whole)
    if snapshot.commit.version:
        raise InputError(f"{whole} was written to since it was built: build it again to divide it")
    documents = range(snapshot.documents)
    owners = np.array([owner(snapshot.stored(n).image_id, shards) for n in documents], np.int64)
    counts = Counter(owners.tolist())
    if missing := sorted({*range(shards)} - {*counts}):
        raise InputError(
            f"--shards {shards}: of {len(owners)} images none is in shard {missing[0]}; make "
            "fewer shards"
        )
    out.mkdir(parents=True)
    kinds, done = read_kinds(whole), 0
    for number in range(shards):
        parts = [sources_of(snapshot, owners == number)]
        write_combined(out / shard_name(number), whole, parts, kinds)
        done += counts[number]
        progress("divide", done, len(owners))
    ShardsManifest(
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        images=len(owners),
        shards=[shard_name(number) for number in range(shards)],
        parts={},
    ).save(out)


def merge_indexes(indexes: Sequence[Path], out: Path, progress: Progress = no_progress) -> Manifest:
    """Write an index with the images of several, each as of its newest commit.

    Progress has the stages "write", "merge" and "columns", in images. Raises InputError if two
    indexes encode images differently or have an image of the same id, one is damaged or has dense
    parts, there is something at `out`, or the disk has too little room.
    """
    check_name(out)
    indexes = [*map(located, indexes)]
    manifests = [Manifest.open(index) for index in indexes]
    _check_alike(indexes, manifests)
    with writing(out), full_disk_reported(out), work_folder(out) as work:
        if os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder")
        check_room(out, 2 * sum(map(bytes_below, indexes)))
        snapshots = [Snapshot.open(index) for index in indexes]
        _check_distinct(indexes, snapshots)
        parts = [sources_of(one, _live(one)) for one in snapshots]
        made, folders = work / "index", {manifest.photos for manifest in manifests}
        photos = manifests[0].photos if len(folders) == 1 else None
        manifest = write_combined(made, indexes[0], parts, _kinds(indexes), photos, progress)
        for index in indexes:
            link_uploads(index, made)
            write_given(made, read_given(index))
        replace_folder(made, out, work)
    return manifest


def write_combined(
    folder: Path,
    like: Path,
    parts: Sequence[tuple[Sources, list[NewImage]]],
    kinds: Mapping[str, Kind],
    photos: str | None = "",
    progress: Progress = no_progress,
) -> Manifest:
    """Write an index of images that other indexes have, as it would have been built of them.

    It has the settings, offsets and words of `like`, and its folder of photos if `photos` is "".
    Progress has the stages "columns", "write" and "merge", in images.
    """
    manifest = Manifest.open(like)
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
    made = finish_index(
        folder, count, frequencies, report, manifest.vocabulary, settings, manifest.scale
    )
    write_lucene(folder, progress)
    return made


def _live(snapshot: Snapshot) -> NDArray[np.bool_]:
    return np.ones(snapshot.documents, np.bool_) if snapshot.live is None else snapshot.live


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
