"""Segments: images that stay as they are. Which of them were deleted is recorded in commits."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.index import ColumnIndex, kernel
from indexer.columns.layout import PostingRows, PostingSpool
from indexer.fields.columns import FIELDS, FieldPart, stored_kinds
from indexer.fields.kinds import Kind
from indexer.grounding import pack_all
from indexer.manifest import MANIFEST, REMEDY, FolderManifest, check_small_parts, describe_parts
from indexer.postings import Postings
from indexer.store.commit import SegmentEntry, segment_folder
from indexer.store.images import IMAGES, ImageTable, ImageWriter, image_rows
from sparta.errors import InputError
from sparta.files import replace_folder, sha256, work_folder
from sparta.progress import Progress, no_progress

Documents = tuple[NDArray[np.int32], NDArray[np.int64]]  # and their scores


@dataclass(frozen=True, kw_only=True)
class SegmentManifest(FolderManifest):
    """`manifest.json` of a segment: segments of equal images have equal files."""

    FORMAT = 7

    images: int


class Segment:
    """A segment, open for searching. Immutable, and safe from any thread.

    Raises InputError if it is damaged, or another one than the commit lists as `entry`.
    """

    def __init__(self, index: Path, name: str, entry: SegmentEntry) -> None:
        self.folder = segment_folder(index, name)
        self.seal = entry.sha256  # of its manifest
        check_seal(self.folder, entry)
        check_small_parts(self.folder, SegmentManifest.open(self.folder).parts)
        self.index = ColumnIndex.open(self.folder)
        self.images = ImageTable(self.folder)
        if not len(self.index) == len(self.images) == entry.images:
            raise InputError(
                f"{self.folder}: the columns have {len(self.index)} images, the table "
                f"{len(self.images)}, the commit {entry.images}: {REMEDY}"
            )
        columns = self.index.columns
        # [V] the largest impact of each term, deleted images included.
        self.largest: NDArray[np.int64] = np.zeros(len(columns.row_of), np.int64)
        present = columns.row_of >= 0
        self.largest[present] = columns.maxima.max(axis=1, initial=0)[columns.row_of[present]]
        self.impacts = self.index.impacts
        self.term_impacts = self.index.term_impacts
        self.stored = self.images.stored
        self.document = self.images.document
        self.grounding = self.images.grounding
        self.content_id, self.content_ids = self.images.content_id, self.images.content_ids
        self._fields: FieldPart | None = None

    @cached_property
    def kinds(self) -> Mapping[str, Kind]:
        """The kinds of the fields as they were written."""
        return stored_kinds(self.folder)

    def fields(self, kinds: Mapping[str, Kind]) -> FieldPart:
        """The fields of the images, as of these kinds, which all values fit."""
        part = self._fields or FieldPart.open(self.folder)
        self._fields = part = part.of_kinds(kinds, self.stored)
        return part

    def __len__(self) -> int:
        """Number of images, deleted ones included."""
        return len(self.index)


def check_seal(folder: Path, entry: SegmentEntry) -> None:
    """Raise InputError if a segment is missing, or another one than a commit lists."""
    path = folder / MANIFEST
    if not path.is_file() or sha256(path) != entry.sha256:
        raise InputError(f"{path} is missing, or not the one that the commit lists: {REMEDY}")


class Segments:
    """The segments of a commit; documents are numbered from the first one on."""

    def __init__(self, segments: Sequence[Segment], vocabulary: int) -> None:
        self.all = tuple(segments)
        self._starts = list(accumulate(map(len, segments), initial=0))
        numbered = sorted(zip(self._starts, segments, strict=False), key=lambda pair: -len(pair[1]))
        self._numbered = [(first, segment) for first, segment in numbered if len(segment)]
        self._firsts = np.array([first for first, _ in self._numbered], np.int64)
        self.largest = np.zeros(vocabulary, np.int64)  # [V] the largest impact of each term
        for segment in segments:
            np.maximum(self.largest, segment.largest, out=self.largest)
        self._opened = [segment.index.opened for _, segment in self._numbered]

    @cached_property
    def _by_id(self) -> NDArray[np.int32]:
        """The documents in the order of their ids; quick, as each segment is in that order."""
        if len(self.all) < 2:
            return np.arange(self._starts[-1], dtype=np.int32)
        import pyarrow.compute as pc  # which an index of one segment does not need

        ids = [chunk for one in self.all for chunk in one.images.rows.column("id").chunks]
        order: NDArray[np.uint64] = pc.sort_indices(
            pa.chunked_array(ids, pa.large_string())
        ).to_numpy()
        return order.astype(np.int32)

    @cached_property
    def ranks(self) -> NDArray[np.int32]:
        """[documents] the place of each in the order of the ids."""
        if len(self.all) < 2:
            return self._by_id
        ranks = np.empty_like(self._by_id)
        ranks[self._by_id] = np.arange(len(self._by_id), dtype=np.int32)
        return ranks

    def before(self, image_id: str) -> int:
        """How many images come before an id, deleted ones included."""
        if len(self.all) == 1:
            return self.all[0].images.before(image_id)
        return bisect_left(self._by_id, image_id, key=self._id)

    def _id(self, document: int) -> str:
        part = bisect_right(self._starts, document) - 1
        return self.all[part].images.id(document - self._starts[part])

    def occupied(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Superblocks, of the largest segment first, that have a document that may be found."""
        found = [
            kernel.occupied(segment.index.columns.order, allowed[first : first + len(segment)])
            for first, segment in self._numbered
        ]
        return np.concatenate([np.empty(0, np.bool_), *found])

    def top(
        self,
        terms: NDArray[np.int64],
        counts: NDArray[np.generic],
        k: int,
        allowed: NDArray[np.bool_],
        some: NDArray[np.bool_],
    ) -> Documents:
        """The k best documents, and others that are not below the k-th best.

        Takes what `best_documents` takes, with what `occupied` returns of the allowed documents,
        and returns what it returns.
        """
        return kernel.best_documents(self._opened, self._firsts, terms, counts, allowed, some, k)


class SegmentWriter:
    """The one way to write a segment: postings are spooled, and laid out at the end.

    The folder, which must not exist, is complete or absent. Postings and images may be added in
    different orders. `kinds` are declared.
    """

    def __init__(
        self, folder: Path, vocabulary: int, bits: int, kinds: Mapping[str, Kind] | None = None
    ) -> None:
        self._folder, self._shape, self._kinds = folder, (vocabulary, bits), kinds
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        self._work = self._opened.enter_context(work_folder(self._folder))
        self._spool = PostingSpool(self._work, *self._shape)
        self._opened.callback(self._spool.close)
        self._images = ImageWriter(self._work, self._kinds)
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add(self, images: Postings) -> None:
        """Append images with their postings, as they are built; raises InputError."""
        self.add_rows(images)
        self.add_images(image_rows(images.ids, images.metadata, pack_all(images)))

    def add_rows(self, chunk: Postings | PostingRows) -> None:
        """Append the postings of some images alone; see `add`."""
        self._spool.add(chunk)

    def add_images(self, images: pa.Table) -> None:
        """Append images alone, as `image_rows` returns them."""
        self._images.add(images)

    def finish(
        self,
        order: NDArray[np.int64] | None = None,
        progress: Progress = no_progress,
        threads: int = 1,
    ) -> None:
        """Lay everything out, sync it and put it in its place.

        `order` has the places of the images, by id, among those whose postings were added; None if
        these came by id. Each thread that lays out has the postings of 8,160 images in memory.
        Progress has the stage "columns", in images.
        """
        from indexer.columns.builder import lay_out  # SciPy, which a search does not need

        self._images.close()
        made = self._work / self._folder.name
        made.mkdir()
        rows = self._spool.rows()
        rows = rows if order is None else rows.picked(order)
        lay_out(made, rows, progress, threads=threads)
        for name in (IMAGES, FIELDS):
            (self._work / name).rename(made / name)
        SegmentManifest(images=len(rows), parts=describe_parts(made)).save(made)
        replace_folder(made, self._folder, self._work)

    @property
    def frequencies(self) -> NDArray[np.int64]:
        """[V] how many of the images have each term."""
        return self._spool.rows().frequencies

    @property
    def totals(self) -> NDArray[np.int64]:
        """[V] the sum of each term's impacts."""
        return self._spool.totals

    def __len__(self) -> int:
        """Images whose postings were added."""
        return len(self._spool.rows())
