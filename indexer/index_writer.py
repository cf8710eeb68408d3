"""Postings → an index folder: its first segment, tokenizer, offsets, manifest, and Lucene."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from heapq import merge
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.encoding.impacts import MEANS
from indexer.fields.kinds import Kind, save_kinds
from indexer.lucene.jvm import lucene_installed
from indexer.lucene.writer import LuceneWriter
from indexer.manifest import LUCENE, OFFSETS, TEXT_TOWER, Manifest, describe_parts
from indexer.postings import Postings, PostingShard, QuantisationReport
from indexer.settings import IndexSettings
from indexer.store.commit import Commit, segment_folder, segment_name, write_segment_list
from indexer.store.segment import SegmentWriter
from indexer.store.snapshot import Snapshot
from sparta.files import replace_folder, work_folder
from sparta.progress import Progress, no_progress
from sparta.tokenizer import TermTokenizer
from sparta.word_tables import WordTables

MOST_THREADS = 4  # that lay out columns; each has the postings of 8,160 images in memory
AT_ONCE = 1024  # images in memory
FIRST = segment_name(1)


def write_index(
    folder: Path,
    shards: Iterable[PostingShard],
    tokenizer: TermTokenizer,
    settings: IndexSettings,
    offset: NDArray[np.float32],
    scale: float,
    *,
    images: int,
    tables: WordTables | None = None,
    kinds: Mapping[str, Kind] | None = None,
    lucene: bool = True,
    tower: Path | None = None,
    progress: Progress = no_progress,
) -> Manifest:
    """Write a whole index folder, which must not exist.

    Shards come in ascending order of image ids; they are taken one by one while earlier ones are
    being written, and have `images` in all. `offset` [V] is stored for images added later, `scale`
    is the term score that one impact stands for, `kinds` are declared, and `lucene` is whether to
    write a Lucene index of the same postings beside. `tower` is the folder of the text tower for
    re-ranking, which is copied. Progress has the stages "write", "merge" and
    "columns", in images; the last two at once.
    """
    folder.mkdir(parents=True)
    vocabulary, report = tokenizer.vocabulary, QuantisationReport()
    with ExitStack() as opened:
        segment = opened.enter_context(
            SegmentWriter(segment_folder(folder, FIRST), len(vocabulary), settings.bits, kinds)
        )
        output = None
        if lucene and lucene_installed():
            writer = LuceneWriter(folder / LUCENE, vocabulary, images, progress, Commit().name)
            output = opened.enter_context(writer)
        for shard in shards:
            if output is not None:
                output.add(shard.postings)
            segment.add(shard.postings)
            report += shard.report
        if output is not None:
            output.begin_merge()
        segment.finish(None, progress, min(MOST_THREADS, os.cpu_count() or 1))  # on another core
        count, frequencies, totals = len(segment), segment.frequencies, segment.totals
    tokenizer.save(folder)
    (tables or WordTables()).save(folder)
    np.save(folder / OFFSETS, offset)
    np.save(folder / MEANS, (totals / max(1, count)).astype(np.float32))
    save_kinds(folder, kinds or {})
    if tower is not None:
        shutil.copytree(tower, folder / TEXT_TOWER)
    named = tokenizer.vocabulary_hash, settings, scale
    return finish_index(folder, count, frequencies, report, *named)


def finish_index(
    folder: Path,
    images: int,
    frequencies: NDArray[np.int64],
    report: QuantisationReport,
    vocabulary: str,
    settings: IndexSettings,
    scale: float,
) -> Manifest:
    """Write the manifest and the first commit of a folder with all that its first commit has.

    `frequencies` [V] are how many images of the segment have each term; the report is what
    quantising cost; the vocabulary is the hash of the terms.
    """
    postings = int(frequencies.sum())
    manifest = Manifest(
        package_version=version("visualsparta"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        vocabulary=vocabulary,
        scale=scale,
        images=images,
        postings=postings,
        distinct_terms=int((frequencies > 0).sum()),
        clipped=report.clipped,
        mean_error=report.total_error / max(1, postings),
        largest_error=report.largest_error,
        parts=describe_parts(folder, "*") | describe_parts(folder, f"{TEXT_TOWER}/*"),
        **vars(settings),
    )
    manifest.save(folder)
    segments = {FIRST: np.ones(images, np.bool_)}
    commit = Commit(images=images, segments=write_segment_list(folder, 2, 1, segments))
    commit.save(folder)
    if (folder / LUCENE).is_dir():
        commit.save(folder / LUCENE)
    return manifest


def write_lucene(index: Path, progress: Progress = no_progress) -> None:
    """Write the Lucene index of an index's newest commit, where its package is installed.

    Nobody else may write the index; a former Lucene index stays in use. Progress has the stages
    "write" and "merge", in images. Raises OSError if Lucene cannot write.
    """
    if not lucene_installed():
        return
    snapshot = Snapshot.open(index)
    vocabulary = TermTokenizer.from_folder(index).vocabulary
    with work_folder(index / LUCENE) as work:
        made = work / LUCENE
        with LuceneWriter(
            made, vocabulary, len(snapshot), progress, snapshot.commit.name
        ) as output:
            for images in images_by_id([snapshot]):
                output.add(images)
        snapshot.commit.save(made)  # whose segments are kept for Lucene's searches
        replace_folder(made, index / LUCENE, work)


def images_by_id(snapshots: Sequence[Snapshot]) -> Iterator[Postings]:
    """The images of some indexes that are not deleted, in id order, some at a time.

    Of all others only the ids are in memory.
    """
    waiting = merge(*(_entries(number, one) for number, one in enumerate(snapshots)))
    while part := list(islice(waiting, AT_ONCE)):
        found = (next(snapshots[number].images([document])) for _, number, document in part)
        yield Postings.of(list(found))


def _entries(number: int, snapshot: Snapshot) -> list[tuple[str, int, int]]:
    """Id, number of the index, document of each image, by id."""
    documents = snapshot.live_documents().tolist()
    return sorted((snapshot.stored(one).image_id, number, one) for one in documents)
