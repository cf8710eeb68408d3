"""One folder of columns with the table of its images, open for searching."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.image_table import ImageTable
from indexer.columns.index import ColumnIndex
from indexer.columns.manifest import ColumnManifest
from indexer.fields.kinds import Kind
from indexer.fields.part import FieldPart, stored_kinds
from indexer.fields.writer import part_of
from indexer.parts import check_small_parts
from sparta.errors import InputError

log = logging.getLogger(__name__)


class Segment:
    """Images that stay as they are; which of them were deleted is recorded elsewhere.

    Attributes:
        folder: of its files.
        index: its columns.
        images: ids and metadata.
        largest: [V] the largest impact of each term.

    Args:
        folder: that `write_columns` wrote.

    Raises:
        InputError: if it is damaged.
    """

    def __init__(self, folder: Path) -> None:
        check_small_parts(folder, ColumnManifest.open(folder).parts)
        self.folder = folder
        self.index = ColumnIndex.open(folder)
        self.images = ImageTable(folder)
        if len(self.index) != len(self.images):
            raise InputError(
                f"{folder}: the columns have {len(self.index)} images, the table "
                f"{len(self.images)}; build the index again"
            )
        columns = self.index.columns
        self.largest: NDArray[np.int64] = np.zeros(len(columns.row_of), np.int64)
        present = columns.row_of >= 0
        self.largest[present] = columns.maxima.max(axis=1, initial=0)[columns.row_of[present]]
        self.impacts = self.index.impacts
        self.term_impacts = self.index.term_impacts
        self.stored = self.images.stored
        self.document = self.images.document
        self.origin, self.origins = self.images.origin, self.images.origins
        self._fields: FieldPart | None = None

    def fields(self, kinds: Mapping[str, Kind]) -> FieldPart:
        """The fields of the images.

        Args:
            kinds: of fields of older images. If these images were given others when they were
                written, their metadata are read; as it is if the file is of an earlier version.
        """
        if self._fields is None:
            self._fields = self._read_fields(kinds)
        return self._fields

    def _read_fields(self, kinds: Mapping[str, Kind]) -> FieldPart:
        found = stored_kinds(self.folder)
        if found and all(kinds.get(name, kind) == kind for name, kind in found.items()):
            return FieldPart.open(self.folder)
        log.warning("%s: reading the fields of all images", self.folder)
        return part_of(map(self.stored, range(len(self))), kinds)

    def __len__(self) -> int:
        """Number of images, deleted ones included."""
        return len(self.index)
