"""Makes one index of several whose images were encoded alike."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from heapq import merge
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from indexer.care.copies import link_uploads
from indexer.dense.manifest import dense_names
from indexer.encoding.impacts import MEANS
from indexer.fields.kinds import Kind
from indexer.fields.store import read_kinds
from indexer.index_writer import write_index
from indexer.live.given import read_given, write_given
from indexer.lucene.reader import LuceneIndex
from indexer.manifest import OFFSETS, Manifest
from indexer.parts import LUCENE
from indexer.postings import ImagePostings, Postings, PostingShard, QuantisationReport
from indexer.settings import IndexSettings
from indexer.state import bytes_below
from sparta.atomic import check_name, replace_folder, work_folder
from sparta.checksum import sha256
from sparta.disk import check_room, full_disk_reported
from sparta.errors import InputError
from sparta.lock import writing
from sparta.progress import Progress, no_progress
from sparta.tokenizer import WordPieceTokenizer
from sparta.word_tables import WordTables

AT_ONCE = 512  # images in memory
ALIKE = (
    "models",
    "vocabulary",
    "top_n",
    "bits",
    "scale",
    "offset",
    "terms",
    "asked",
    "asked_power",
)

Entry = tuple[str, int, int]  # image id, number of the index, document


def merge_indexes(indexes: Sequence[Path], out: Path, progress: Progress = no_progress) -> Manifest:
    """Write an index with the images of several, each as of its newest commit.

    Args:
        indexes: folders of indexes that differ in their images alone.
        out: must not exist.
        progress: stages "write", "merge" and "columns", in images.

    Raises:
        InputError: if two differ in how images are encoded, or have an image of the same id, one
            is damaged or has dense parts, there is something at `out`, or the disk has too little
            room.
    """
    check_name(out)
    manifests = [Manifest.open(index) for index in indexes]
    _check_alike(indexes, manifests)
    with writing(out), full_disk_reported(out), work_folder(out) as work:
        if os.path.lexists(out):
            raise InputError(f"{out} exists: give a new folder")
        check_room(out, 2 * sum(map(bytes_below, indexes)))
        made = work / "index"
        manifest = _write(indexes, manifests, made, progress)
        for index in indexes:
            link_uploads(index, made)
            write_given(made, read_given(index))
        replace_folder(made, out, work)
    return manifest


def _check_alike(indexes: Sequence[Path], manifests: Sequence[Manifest]) -> None:
    if len(indexes) < 2:
        raise InputError("give at least two indexes to merge")
    first, whole = indexes[0], vars(manifests[0])
    for index, manifest in zip(indexes, manifests, strict=True):
        if names := dense_names(index):
            raise InputError(f"{index} has dense parts ({', '.join(names)}), which do not merge")
        for name in ALIKE:
            if vars(manifest)[name] != whole[name]:
                raise InputError(
                    f"{index} cannot be merged with {first}: its {name} is "
                    f"{_short(vars(manifest)[name])} instead of {_short(whole[name])}"
                )
        if len(manifest.features) != len(manifests[0].features):
            raise InputError(
                f"{index} cannot be merged with {first}: it has {len(manifest.features)} "
                f"augmentations of each photo instead of {len(manifests[0].features)}"
            )
        if sha256(index / OFFSETS) != sha256(first / OFFSETS):
            raise InputError(
                f"{index} cannot be merged with {first}: its offsets are those of other photos; "
                "build one index of all"
            )


def _short(value: Any) -> str:
    return ", ".join(one[:12] for one in value) if isinstance(value, list) else str(value)[:20]


def _write(
    indexes: Sequence[Path], manifests: Sequence[Manifest], out: Path, progress: Progress
) -> Manifest:
    first, tokenizer = indexes[0], WordPieceTokenizer.from_folder(indexes[0])
    with ExitStack() as opened:
        sources = [opened.enter_context(closing(LuceneIndex(one / LUCENE))) for one in indexes]
        entries = list(merge(*(_entries(number, one) for number, one in enumerate(sources))))
        for former, later in pairwise(entries):
            if former[0] == later[0]:
                raise InputError(
                    f"{former[0]!r} is in {indexes[former[1]]} and in {indexes[later[1]]}: delete "
                    "it from one of them"
                )
        means = first / MEANS  # the offsets are of the same images
        return write_index(
            out,
            _shards(entries, sources, tokenizer.vocabulary, manifests[0]),
            tokenizer,
            _settings(manifests),
            np.load(first / OFFSETS, allow_pickle=False),
            manifests[0].scale,
            images=len(entries),
            means=np.load(means, allow_pickle=False) if means.is_file() else None,
            tables=WordTables.open(first),
            kinds=_kinds(indexes),
            progress=progress,
        )


def _entries(number: int, source: LuceneIndex) -> list[Entry]:
    """The images of an index that are not deleted, by id."""
    live = np.ones(source.documents, np.bool_) if source.live is None else source.live
    return sorted(
        (source.stored(one).image_id, number, one) for one in np.flatnonzero(live).tolist()
    )


def _shards(
    entries: Sequence[Entry],
    sources: Sequence[LuceneIndex],
    vocabulary: Sequence[str],
    manifest: Manifest,
) -> Iterator[PostingShard]:
    """The images in their order, some at a time.

    The error of quantising them is that which the first index had as built.
    """
    waiting = iter(entries)
    while part := list(islice(waiting, AT_ONCE)):
        images: list[ImagePostings] = []
        for number, source in enumerate(sources):
            documents = [document for _, own, document in part if own == number]
            images += source.images(documents, vocabulary)
        postings = Postings.of(sorted(images, key=lambda image: image.image_id))
        error = manifest.mean_error * len(postings.terms)
        yield PostingShard(postings, QuantisationReport(0, error, manifest.largest_error))


def _settings(manifests: Sequence[Manifest]) -> IndexSettings:
    """The settings of the first index; the folder of photos only if it is that of all."""
    first = manifests[0]
    names = IndexSettings.__dataclass_fields__
    values = {name: vars(first)[name] for name in names}
    if len({manifest.photos for manifest in manifests}) > 1:
        values["photos"] = None
    return IndexSettings(**values)


def _kinds(indexes: Sequence[Path]) -> Mapping[str, Kind]:
    """Declared kinds of fields.

    Raises:
        InputError: if two indexes declare different ones.
    """
    found: dict[str, Kind] = {}
    for index in indexes:
        for name, kind in read_kinds(index).items():
            if found.setdefault(name, kind) != kind:
                raise InputError(
                    f"{index} declares the field {name!r} as {kind}, another index as {found[name]}"
                )
    return found
