"""Segments: images that stay as they are. Which of them were deleted is recorded in commits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.columns.index import ColumnIndex
from indexer.columns.layout import Chunk, RowFiles
from indexer.fields.columns import FIELDS, FieldPart, part_of, stored_kinds
from indexer.fields.kinds import Kind, read_kinds
from indexer.grounding import pack_all
from indexer.manifest import (
    MANIFEST,
    REMEDY,
    Parts,
    check_small_parts,
    describe_parts,
    open_manifest,
    read_manifest,
    save_manifest,
)
from indexer.postings import Postings
from indexer.store.commit import SegmentEntry, segment_folder
from indexer.store.images import IMAGES, ImageTable, ImageWriter, image_rows
from sparta.errors import InputError
from sparta.files import replace_folder, sha256, work_folder
from sparta.progress import Progress, no_progress

FORMAT_VERSION = 6

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SegmentManifest:
    """`manifest.json` of a segment: segments of equal images have equal files.

    Attributes:
        format_version: of the folder's layout.
        images: count.
        parts: path in the folder → size and hash.
    """

    format_version: int
    images: int
    parts: Parts

    @classmethod
    def open(cls, folder: Path) -> SegmentManifest:
        """Read a segment's manifest and check that every file has its size.

        Raises:
            InputError: if the folder has another format, or a file is missing.
        """
        return open_manifest(cls, folder, FORMAT_VERSION)

    @classmethod
    def read(cls, folder: Path) -> SegmentManifest:
        """As `open`, without a look at the files."""
        return read_manifest(cls, folder, FORMAT_VERSION)


class Segment:
    """A segment, open for searching. Immutable, and safe from any thread.

    Attributes:
        folder: of its files.
        seal: SHA-256 of its manifest.
        index: its columns.
        images: ids, metadata, origins and groundings.
        largest: [V] int64, the largest impact of each term, deleted images included.

    Args:
        index: the index folder.
        name: of the segment.
        entry: of it in a commit.

    Raises:
        InputError: if it is damaged, or another one than the commit lists.
    """

    def __init__(self, index: Path, name: str, entry: SegmentEntry) -> None:
        self.folder, self.seal = segment_folder(index, name), entry.sha256
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
        self.largest: NDArray[np.int64] = np.zeros(len(columns.row_of), np.int64)
        present = columns.row_of >= 0
        self.largest[present] = columns.maxima.max(axis=1, initial=0)[columns.row_of[present]]
        self.impacts = self.index.impacts
        self.term_impacts = self.index.term_impacts
        self.stored = self.images.stored
        self.document = self.images.document
        self.grounding = self.images.grounding
        self.origin, self.origins = self.images.origin, self.images.origins
        self._fields: FieldPart | None = None

    def fields(self, kinds: Mapping[str, Kind]) -> FieldPart:
        """The fields of the images.

        Args:
            kinds: of fields of older images. If these images were given others when they were
                written, their metadata are read.
        """
        if self._fields is None:
            found = stored_kinds(self.folder)
            if all(kinds.get(name, kind) == kind for name, kind in found.items()):
                self._fields = FieldPart.open(self.folder)
            else:
                log.warning("%s: reading the fields of all images", self.folder)
                self._fields = part_of(map(self.stored, range(len(self))), kinds)
        return self._fields

    def __len__(self) -> int:
        """Number of images, deleted ones included."""
        return len(self.index)


def check_seal(folder: Path, entry: SegmentEntry) -> None:
    """Refuse a segment that is another one than a commit lists.

    Raises:
        InputError: if it is, or is missing.
    """
    path = folder / MANIFEST
    if not path.is_file() or sha256(path) != entry.sha256:
        raise InputError(f"{path} is missing, or not the one that the commit lists: {REMEDY}")


def kinds_of(index: Path, segments: Sequence[str]) -> dict[str, Kind]:
    """The kinds of an index's fields: declared ones, then those of some segments in order."""
    kinds = read_kinds(index)
    for name in segments:
        kinds = stored_kinds(segment_folder(index, name)) | kinds
    return kinds


class SegmentWriter:
    """The one way to write a segment: postings are spooled, and laid out at the end.

    The folder is complete or absent. Postings and images may be added in different orders.

    Args:
        folder: of the segment; must not exist.
        vocabulary: number of terms V.
        bits: of an impact.
        kinds: of fields that are declared, or that older images have.
    """

    def __init__(
        self, folder: Path, vocabulary: int, bits: int, kinds: Mapping[str, Kind] | None = None
    ) -> None:
        self._folder, self._shape, self._kinds = folder, (vocabulary, bits), kinds
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        self._work = self._opened.enter_context(work_folder(self._folder))
        self._spool = RowFiles(self._work, *self._shape)
        self._opened.callback(self._spool.close)
        self._images = ImageWriter(self._work, self._kinds)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened.close()

    def add(self, images: Postings) -> None:
        """Append images with their postings, as they are built.

        Raises:
            InputError: if a term is not of the vocabulary or an impact has more bits.
        """
        self.add_rows(images)
        self.add_images(image_rows(images.ids, images.metadata, pack_all(images)))

    def add_rows(self, chunk: Chunk) -> None:
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

        Args:
            order: [N] places of the images, by id, among those whose postings were added; None
                if these came by id.
            progress: stage "columns", in images.
            threads: that lay out; each has the postings of 8,160 images in memory.
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
        manifest = SegmentManifest(FORMAT_VERSION, len(rows), describe_parts(made))
        save_manifest(manifest, made)
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
