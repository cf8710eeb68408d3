"""Writes an index of many images part by part, several at once, and merges the parts."""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from indexer.lucene.document import Documents, Texts, check_vocabulary
from indexer.lucene.segment_writer import SegmentWriter, merge_segments, remove_lock
from indexer.postings import Postings
from sparta.progress import Progress, no_progress

# Of a part: half a second of work. Its documents are in memory at once, 13 bytes a posting and
# some 3 KB an image.
PART_POSTINGS = 2_000_000
PART_IMAGES = 4096
MOST_THREADS = 4


class LuceneWriter:
    """Adds images to a new index; leaving the `with` block merges and commits.

    Args:
        folder: where the index goes; must not exist.
        vocabulary: [V] terms in id order.
        images: how many will be added in all, for progress.
        progress: stages "write" and "merge", in images; the second in a thread of its own.

    Raises:
        InputError: if a term cannot be written as Lucene's tokenizer would read it back.
        FileExistsError: if the folder exists.
        OSError: while adding or at the end, if Lucene cannot write.
    """

    def __init__(
        self,
        folder: Path,
        vocabulary: Sequence[str],
        images: int,
        progress: Progress = no_progress,
    ) -> None:
        check_vocabulary(vocabulary)
        if folder.exists():
            raise FileExistsError(folder)
        self._folder, self._texts = folder, Texts(vocabulary)
        self._images, self._progress = images, progress
        self._last = ""
        self._parts: list[Path] = []
        self._threads = _threads()
        self._begun: deque[SegmentWriter] = deque()  # parts, of which the last is being filled
        self._free: list[Documents] = []
        self._written = 0
        self._runner = ThreadPoolExecutor(1)
        self._merging: Future[None] | None = None

    def add(self, shard: Postings) -> None:
        """Add some images; waits while enough parts are being written.

        Raises:
            ValueError: if an id does not come after the one before.
        """
        for image_id in shard.ids:
            if image_id <= self._last:
                raise ValueError(f"image {image_id!r} comes after {self._last!r}: not rising")
            self._last = image_id
        if not self._begun or _is_full(self._begun[-1]):
            self._begin_part()
        self._begun[-1].add(shard)

    def _begin_part(self) -> None:
        if self._begun:
            self._begun[-1].finish()
        if len(self._begun) == self._threads:
            self._wait_for_one()
        part = self._folder.with_name(f"{self._folder.name}.parts") / f"{len(self._parts):05d}"
        self._begun.append(SegmentWriter(part, self._texts, self._free))
        self._parts.append(part)

    def _wait_for_one(self) -> None:
        self._begun[0].wait()
        self._written += self._begun.popleft().images
        self._progress("write", self._written, self._images)

    def begin_merge(self) -> None:
        """Finish all parts and begin to merge them, after the last image was added.

        It is the work of one core, beside which the caller may do something else.
        """
        if not self._begun:
            self._begin_part()  # an index of no images
        self._begun[-1].finish()
        self._merging = self._runner.submit(self._merge)

    def _merge(self) -> None:
        """Wait for all parts and merge them, watching how much of their size the index reaches."""
        while self._begun:
            self._wait_for_one()
        self._free.clear()
        if len(self._parts) == 1:
            self._parts[0].rename(self._folder)
            remove_lock(self._folder)
            return
        whole = sum(map(_size, self._parts))
        with ThreadPoolExecutor(1) as runner:
            merging = runner.submit(merge_segments, self._parts, self._folder)
            while not wait([merging], timeout=0.5).done:
                share = min(1.0, _size(self._folder) / whole)
                self._progress("merge", int(share * self._written), self._images)
        merging.result()
        self._progress("merge", self._written, self._images)

    def __enter__(self) -> LuceneWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            self._runner.shutdown()
            for part in self._begun:
                part.abandon()

    def _finish(self) -> None:
        if self._merging is None:
            self.begin_merge()
        assert self._merging is not None
        self._merging.result()
        shutil.rmtree(self._parts[0].parent)


def _is_full(part: SegmentWriter) -> bool:
    return part.postings >= PART_POSTINGS or part.images >= PART_IMAGES


def _size(folder: Path) -> int:
    size = 0
    for path in folder.glob("*"):
        with suppress(FileNotFoundError):  # Lucene has renamed it
            size += path.stat().st_size
    return size


def _threads() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(MOST_THREADS, cores or 1)
