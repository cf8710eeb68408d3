"""The segments of a live index, open for searching."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.columns.engine import best_documents, occupied
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


class Segments:
    """The segments of a state; documents are numbered from the first one on.

    Attributes:
        all: in order.
        largest: [V] the largest impact of each term.
        ranks: [documents] int32, the place of each in the order of the ids.

    Args:
        segments: in order.
        vocabulary: number of terms V.
    """

    def __init__(self, segments: Sequence[Segment], vocabulary: int) -> None:
        self.all = tuple(segments)
        self._starts = list(accumulate(map(len, segments), initial=0))
        numbered = sorted(zip(self._starts, segments, strict=False), key=lambda pair: -len(pair[1]))
        numbered = [(first, segment) for first, segment in numbered if len(segment)]
        self._numbered = numbered
        self._firsts = np.array([first for first, _ in numbered], np.int64)
        self._by_id = _by_id([segment.images.rows.column("id") for segment in segments])
        self.ranks = np.empty_like(self._by_id)
        self.ranks[self._by_id] = np.arange(len(self._by_id), dtype=np.int32)
        self.largest = np.zeros(vocabulary, np.int64)
        for _, segment in numbered:
            np.maximum(self.largest, segment.largest, out=self.largest)
        self._columns = [segment.index.columns for _, segment in numbered]

    def before(self, image_id: str) -> int:
        """How many images come before an id, deleted ones included."""
        return bisect_left(self._by_id, image_id, key=self._id)

    def _id(self, document: int) -> str:
        part = bisect_right(self._starts, document) - 1
        return self.all[part].images.id(document - self._starts[part])

    def occupied(self, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Superblocks, of the largest segment first, that have a document that may be found."""
        found = [
            occupied(segment.index.columns.order, allowed[first : first + len(segment)])
            for first, segment in self._numbered
        ]
        return np.concatenate([np.empty(0, np.bool_), *found])

    def top(
        self,
        terms: NDArray[np.int64],
        counts: NDArray[Any],
        k: int,
        allowed: NDArray[np.bool_],
        some: NDArray[np.bool_],
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The k best documents, and others that are not below the k-th best.

        Args:
            terms: [m] vocabulary ids.
            counts: [m] uint16 or uint32, how often the query holds each; no sum may overflow it.
            k: documents at most.
            allowed: bool by number of documents that may be found; empty for all.
            some: what `occupied` returns of them; empty for all.

        Returns:
            documents and scores, in no order.
        """
        return best_documents(self._columns, self._firsts, terms, counts, allowed, some, k)


def _by_id(ids: Sequence[pa.ChunkedArray]) -> NDArray[np.int32]:
    """The documents of all segments in the order of their ids; quick, as each is in that order."""
    chunks = [chunk for one in ids for chunk in one.chunks]
    if len(ids) < 2:
        return np.arange(sum(map(len, ids)), dtype=np.int32)
    order: NDArray[np.uint64] = pc.sort_indices(
        pa.chunked_array(chunks, pa.large_string())
    ).to_numpy()
    return order.astype(np.int32)
