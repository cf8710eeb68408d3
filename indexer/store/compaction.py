"""New segments out of images that an index has: of finished change logs, and of other segments."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Event, Lock, get_native_id

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.columns.layout import PostingRows
from indexer.columns.postings import rows_of
from indexer.fields.kinds import Kind, read_kinds
from indexer.store.commit import (
    Commit,
    SegmentList,
    next_number,
    remove_unlisted,
    segment_folder,
    segment_name,
    write_segment_list,
)
from indexer.store.images import ImageTable, image_rows
from indexer.store.log import read_changes
from indexer.store.memtable import CAPACITY, NewImage
from indexer.store.segment import Segment, SegmentWriter
from indexer.store.snapshot import IndexLocation, Snapshot, opened_segments
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

AT_ONCE = 512  # images whose postings are copied together
IMAGES_AT_ONCE = 8192  # ids, metadata and groundings in memory
FAN = 4  # segments of a tier that are merged; the next tier's are so many times as large
WASTE = 0.5  # share of deleted images from which a segment is written again
CLOSING = 5.0  # seconds a merge may go on after the writer was closed
NICE = 10

Live = Mapping[str, NDArray[np.bool_]]  # of each segment, which images are not deleted
Sources = Sequence[tuple[Segment, NDArray[np.bool_]]]  # segments, and which images are wanted

log = logging.getLogger(__name__)


def combine(
    folder: Path,
    sources: Sources,
    newest: Sequence[NewImage],
    shape: tuple[int, int],
    kinds: Mapping[str, Kind],
    progress: Progress = no_progress,
) -> NDArray[np.int64]:
    """Write a segment of images of other segments, those wanted of each, and of some in memory.

    Memory holds the postings of some 8,000 images, and some 400 bytes an image. `shape` is the
    number of terms, and the bits of an impact. Returns [V] how many of the images have each term.
    Progress has the stages "copy" and "columns", in images.
    """
    segments, live = [segment for segment, _ in sources], [own for _, own in sources]
    columns = [segment.index.columns for segment in segments]
    firsts = np.cumsum([0, *map(len, segments)])
    # Postings come in the order of the columns, images by their ids.
    places = [
        first + np.argsort(own.order) for first, own in zip(firsts[:-1], columns, strict=True)
    ]
    places.append(firsts[-1] + np.arange(len(newest)))
    tables = [*(segment.images.rows for segment in segments), _table(newest)]
    order, done = _order(tables, [*live, np.ones(len(newest), np.bool_)]), 0
    with SegmentWriter(folder, *shape, kinds) as made:
        for rows in chain(chain.from_iterable(map(rows_of, columns, live)), _rows(newest)):
            made.add_rows(rows)
            done += len(rows.starts) - 1
            progress("copy", done, int(firsts[-1]) + len(newest))
        for images in _images(tables, order):
            made.add_images(images)
        made.finish(np.concatenate(places)[order], progress)
        return made.frequencies


def sources_of(snapshot: Snapshot, wanted: NDArray[np.bool_]) -> tuple[Sources, list[NewImage]]:
    """Images of a commit that are `wanted` [documents], as `combine` takes them."""
    sources, first = [], 0
    for segment in snapshot.segments.all:
        if (own := wanted[first : first + len(segment)]).any():
            sources.append((segment, own))
        first += len(segment)
    rest = first + np.flatnonzero(wanted[first:])
    return sources, [snapshot.new_image(document) for document in rest.tolist()]


def _table(images: Sequence[NewImage]) -> pa.Table:
    return image_rows(
        [image.image_id for image in images],
        [image.metadata for image in images],
        [image.grounding for image in images],
        [image.content_id for image in images],
    )


def _rows(images: Sequence[NewImage]) -> Iterator[PostingRows]:
    """The postings of some images."""
    for first in range(0, len(images), AT_ONCE):
        own = images[first : first + AT_ONCE]
        yield PostingRows(
            np.cumsum([0, *(len(image.terms) for image in own)]),
            np.concatenate([image.terms for image in own]),
            np.concatenate([image.impacts for image in own]),
        )


def _order(tables: Sequence[pa.Table], live: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """The rows of several tables, end to end, that are wanted, by image id."""
    ids = [
        table.column("id").filter(pa.array(own)) for table, own in zip(tables, live, strict=True)
    ]
    rows = np.flatnonzero(np.concatenate(live))
    joined = pa.chunked_array(chain.from_iterable(one.chunks for one in ids), pa.large_string())
    ordered: NDArray[np.int64] = rows[pc.sort_indices(joined).to_numpy()]
    return ordered


def _images(tables: Sequence[pa.Table], order: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Rows of several tables, end to end, in some order."""
    firsts = np.cumsum([0, *map(len, tables)])
    for begin in range(0, len(order), IMAGES_AT_ONCE):
        wanted = order[begin : begin + IMAGES_AT_ONCE]
        parts, places, size = [], np.empty(len(wanted), np.int64), 0
        for table, first, last in zip(tables, firsts[:-1], firsts[1:], strict=True):
            own = (wanted >= first) & (wanted < last)
            if own.any():
                rows = wanted[own] - first
                # Rows that follow one another: a copy of what is taken, not of the whole table.
                parts.append(table.slice(rows.min(), rows.max() + 1 - rows.min()))
                places[own] = size + rows - rows.min()
                size += len(parts[-1])
        yield pa.concat_tables(parts).combine_chunks().take(places)


def to_merge(sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Which segments should be merged now, if any, of some: name → images, and those not deleted.

    These are the segments of the lowest tier that is full, else one of mostly deleted images; where
    all are, the segment will not be listed again anyway.
    """
    tiers: dict[int, list[str]] = {}
    sizes = {name: size for name, size in sizes.items() if size[1]}
    for name, (_, live) in sizes.items():
        tier = 0
        while live > CAPACITY * FAN**tier:
            tier += 1
        tiers.setdefault(tier, []).append(name)
    full = [names for _, names in sorted(tiers.items()) if len(names) >= FAN]
    wasteful = [[name] for name, (images, live) in sizes.items() if live < (1 - WASTE) * images]
    return next(iter(full + wasteful), [])


class Compactor:
    """Makes segments in threads of its own, beside searches and writes.

    A compaction makes a segment of the images of finished change logs, a merge one segment of
    several; neither waits for the other. What they make is complete or absent, and nobody reads it
    until a commit names it. What a killed writer left unfinished is removed. `listed` are the
    segments of the last commit; `check` raises `OSError` once another index is in the folder, which
    is left alone.
    """

    def __init__(
        self, place: IndexLocation, listed: SegmentList, check: Callable[[], None] = lambda: None
    ) -> None:
        self._place, self._index, self._check = place, place.folder, check
        remove_unlisted(self._index, [listed])
        self.listed = listed  # the newest segments; all their files are complete
        self._number, self.made = next_number(self._index), 0
        # Lists that are read, and numbers that are being written.
        self._used: list[SegmentList] = []
        self._making: set[int] = set()
        self._lists = Lock()  # held by who reserves numbers, makes a list or removes files
        self._stopped = Event()
        self._compactor = ThreadPoolExecutor(1, initializer=_yield_to_searches)
        self._merger = ThreadPoolExecutor(1, initializer=_yield_to_searches)
        self._compaction: Future[None] = _done()
        self._merge: Future[None] = _done()
        if len(listed.entries) >= FAN:
            self._begin_merges()

    @property
    def ready(self) -> bool:
        """Whether a compaction can begin: none is under way, and this is not closed."""
        return self._compaction.done() and not self._stopped.is_set()

    def compact(self, end: int) -> None:
        """Begin a compaction of all finished logs, those before log `end`, if `ready`."""
        self._compaction = self._compactor.submit(self._reporting, partial(self.compact_now, end))

    def compact_now(self, end: int) -> None:
        """As `compact`, in this thread; raises OSError or InputError, and all stays as it was."""
        with self._beginning() as (former, number):
            images = opened_segments(self._place, former)
            final = images.last(read_changes(self._index, former.log, 0, Commit(log=end)))
            kept = [image for _, image in sorted(final.items()) if image is not None]
            if kept:
                folder = segment_folder(self._index, segment_name(number))
                combine(folder, [], kept, self._shape, read_kinds(self._index))

            def replace(live: dict[str, NDArray[np.bool_]]) -> None:
                """The images of finished logs leave the segments before, and have their own."""
                for name, own in live.items():
                    table = ImageTable(segment_folder(self._index, name))
                    own[[place for place in map(table.document, final) if place is not None]] = (
                        False
                    )
                if kept:
                    live[segment_name(number)] = np.ones(len(kept), np.bool_)

            self._follow(end, replace)
        self._begin_merges()

    @property
    def _shape(self) -> tuple[int, int]:
        return self._place.vocabulary, self._place.manifest.bits

    def _begin_merges(self) -> None:
        """Begin to merge, unless it is under way already."""
        if self._merge.done():
            self._merge = self._merger.submit(self._reporting, self._merge_all)

    def _merge_all(self) -> None:
        """Merge until no merge is due."""
        while not self._stopped.is_set():
            with self._beginning() as (former, number):
                live = former.live(self._index)
                names = to_merge({name: (len(own), int(own.sum())) for name, own in live.items()})
                if not names:
                    return
                self._merge_some(former, number, {name: live[name] for name in names})

    def _merge_some(self, former: SegmentList, number: int, live: Live) -> None:
        """Make one segment of several, and of images that are deleted meanwhile deleted ones."""
        sources = [
            (Segment(self._index, name, former.entries[name]), own) for name, own in live.items()
        ]
        folder = segment_folder(self._index, segment_name(number))
        kinds = read_kinds(self._index)
        combine(folder, sources, [], self._shape, kinds, self._unless_stopped)

        def merge(live: dict[str, NDArray[np.bool_]]) -> None:
            """One segment takes the place of several, of which images were deleted meanwhile."""
            table = ImageTable(folder)
            own = np.ones(len(table), np.bool_)
            for source, before in sources:
                # A segment of deleted images is dropped.
                now = live.pop(source.folder.name, np.zeros_like(before))
                for document in np.flatnonzero(before & ~now).tolist():
                    own[table.document(source.images.id(document))] = False
            live[folder.name] = own

        self._follow(None, merge)

    def merge_everything(self, progress: Progress = no_progress) -> None:
        """Make one segment of all, without deleted images; nothing else is under way."""
        with self._beginning() as (former, number):
            live = former.live(self._index)
            if len(live) > 1 or not all(own.all() for own in live.values()):
                self._merge_some(former, number, live)

    @contextmanager
    def _beginning(self) -> Iterator[tuple[SegmentList, int]]:
        """The newest segments, and the number of another one; neither is removed meanwhile."""
        with self._lists:
            former, number = self.listed, self._next_number()
            self._used.append(former)
            self._making.add(number)
        try:
            yield former, number
        finally:
            with self._lists:
                self._used.remove(former)
                self._making.discard(number)

    def _follow(
        self, end: int | None, change: Callable[[dict[str, NDArray[np.bool_]]], None]
    ) -> None:
        """Let a list follow the newest, which may be newer than the one that a job began with.

        `end` is the first log whose changes the list lacks, None for as before; `change` changes
        which images of each segment live.
        """
        with self._lists:
            self._check()
            live = self.listed.live(self._index)
            change(live)
            # Above all that it lists: files that readers may have open keep their number to
            # themselves, though the next writer counts on from what is still there.
            number = self._next_number()
            first = self.listed.log if end is None else end
            self.listed = write_segment_list(self._index, number, first, live)
            self.made += 1

    def _next_number(self) -> int:
        self._number += 1
        return self._number - 1

    def _unless_stopped(self, stage: str, done: int, total: int) -> None:
        if self._stopped.is_set():
            raise _StoppedError

    def _reporting(self, job: Callable[[], None]) -> None:
        """Do a job; if it fails, all that was there before stays in use until another retries."""
        try:
            job()
        except _StoppedError:
            pass
        except (OSError, InputError) as error:
            log.warning("%s: its segments stay as they are: %s", self._index, error)

    def remove_except(self, lists: Iterable[SegmentList]) -> None:
        """Remove what neither some lists, which commits name, nor the newest one need.

        What cannot be removed now is left for another time.
        """
        with self._lists:
            self._check()
            try:
                remove_unlisted(self._index, [*lists, *self._used, self.listed], self._making)
            except OSError as error:
                log.warning("%s: former files stay for now: %s", self._index, error)

    def wait(self) -> None:
        """Wait until nothing is under way."""
        wait([self._compaction])
        wait([self._merge])

    def close(self, patience: float = CLOSING) -> None:
        """Wait for a compaction, and for merges as long as `patience`; then give those up."""
        wait([self._compaction])
        wait([self._merge], patience)
        self._stopped.set()
        self._compactor.shutdown()
        self._merger.shutdown()
        self._compaction.result()
        self._merge.result()


class _StoppedError(Exception):
    """Ends a merge that was given up."""


def _done() -> Future[None]:
    job: Future[None] = Future()
    job.set_result(None)
    return job


def _yield_to_searches() -> None:
    """Let this thread compute where nobody else does; only Linux has priorities of threads."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICE)
