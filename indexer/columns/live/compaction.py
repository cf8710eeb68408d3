"""New segments of a live index: of a change log's images, and of several segments merged."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexer.columns.image_table import ImageTable
from indexer.columns.live.newest import NewImage
from indexer.columns.live.segment import Segment
from indexer.columns.live.state import (
    ColumnState,
    kinds_of,
    live_images,
    segment_name,
    to_merge,
)
from indexer.columns.postings import rows_of
from indexer.columns.row_files import PostingRows
from indexer.columns.writer import image_rows, write_segment
from sparta.progress import Progress, no_progress

AT_ONCE = 512  # images whose postings are copied together
IMAGES_AT_ONCE = 65_536  # ids and metadata in memory


@dataclass(frozen=True)
class Compaction:
    """Changes that are to become a segment of their own.

    `write` may run while the index is searched, written to and merged.

    Attributes:
        index: the index folder.
        number: of the new segment; no state or segment had it before.
        segments: path in the index folder of each one that was there before the changes.
        final: what each changed image is after the changes; see `LiveColumns.last`.
    """

    index: Path
    number: int
    segments: Collection[str]
    final: Mapping[str, NewImage | None]

    def write(self, vocabulary: int, bits: int) -> None:
        """Write the new segment, if there are images for it.

        Args:
            vocabulary: number of terms.
            bits: of an impact.
        """
        if images := self._images():
            table = image_rows(
                [image.image_id for image in images],
                [image.metadata for image in images],
                [image.origin for image in images],
            )
            folder = self.index / segment_name(self.number)
            order = np.arange(len(images))
            kinds = kinds_of(self.index, self.segments)
            write_segment(folder, (vocabulary, bits), _rows(images), order, [table], kinds=kinds)

    def _images(self) -> list[NewImage]:
        return [image for _, image in sorted(self.final.items()) if image is not None]

    def save(self, current: int, number: int, log: int) -> ColumnState:
        """Write the state that follows another one: with the changes.

        Args:
            current: number of the newest state.
            number: of the new state.
            log: the first one whose changes are not in the new state.
        """
        segments = live_images(self.index, current)
        for name, live in segments.items():
            table = ImageTable(self.index / name)
            found = [place for place in map(table.document, self.final) if place is not None]
            live[found] = False
        if images := self._images():
            segments[segment_name(self.number)] = np.ones(len(images), np.bool_)
        return ColumnState.save(self.index, number, log, segments)


def _rows(images: Sequence[NewImage]) -> Iterator[PostingRows]:
    """The postings of some images."""
    for first in range(0, len(images), AT_ONCE):
        own = images[first : first + AT_ONCE]
        yield PostingRows(
            np.cumsum([0, *(len(image.terms) for image in own)]),
            np.concatenate([image.terms for image in own]),
            np.concatenate([image.impacts for image in own]),
        )


@dataclass(frozen=True)
class Merge:
    """Segments that are to become one.

    `write` may run while the index is searched and written to; images that are deleted
    meanwhile are deleted in the new segment by `save`.

    Attributes:
        index: the index folder.
        sources: path of each segment in the index folder → which images are not deleted.
        number: of the new segment; no state or segment had it before.
    """

    index: Path
    sources: Mapping[str, NDArray[np.bool_]]
    number: int

    @classmethod
    def due(cls, index: Path, state: int, number: int) -> Merge | None:
        """The merge that a state of the columns needs, None if none.

        Args:
            index: the index folder.
            state: number of the state.
            number: for the new segment.
        """
        live = live_images(index, state)
        sizes = {name: (len(own), int(own.sum())) for name, own in live.items()}
        names = to_merge(sizes)
        return cls(index, {name: live[name] for name in names}, number) if names else None

    def write(self, progress: Progress = no_progress) -> None:
        """Write the new segment: stage "columns", in images.

        Memory holds the postings of some 8,000 images, and some 400 bytes an image.
        """
        segments = [Segment(self.index / name) for name in self.sources]
        live = list(self.sources.values())
        columns = [segment.index.columns for segment in segments]
        firsts = np.cumsum([0, *map(len, segments)])
        # Postings come in the order of the columns, images by their ids.
        places = [
            first + np.argsort(own.order) for first, own in zip(firsts[:-1], columns, strict=True)
        ]
        order = _order([segment.images.rows for segment in segments], live)
        write_segment(
            self.index / segment_name(self.number),
            (len(columns[0].row_of), 8 * columns[0].maxima.itemsize),
            chain.from_iterable(map(rows_of, columns, live)),
            np.concatenate(places)[order],
            _images([segment.images.rows for segment in segments], order),
            progress,
            kinds=kinds_of(self.index, self.sources),
        )

    def save(self, current: int, number: int) -> ColumnState:
        """Write the state that follows another one: the new segment in place of its sources.

        Args:
            current: number of the newest state, which lists the sources.
            number: of the new state.
        """
        log = ColumnState.open(self.index, current).log
        live = live_images(self.index, current)
        name = segment_name(self.number)
        merged = ImageTable(self.index / name)
        own = np.ones(len(merged), np.bool_)
        for source, before in self.sources.items():
            images = ImageTable(self.index / source)
            now = live.pop(source, np.zeros_like(before))  # a segment of deleted images is dropped
            for document in np.flatnonzero(before & ~now):
                own[merged.document(images.stored(document).image_id)] = False
        return ColumnState.save(self.index, number, log, live | {name: own})


def _order(tables: Sequence[pa.Table], live: Sequence[NDArray[np.bool_]]) -> NDArray[np.int64]:
    """The rows of several tables, end to end, that are not deleted, by image id."""
    ids = [
        table.column("id").filter(pa.array(own)) for table, own in zip(tables, live, strict=True)
    ]
    rows = np.flatnonzero(np.concatenate(live))
    joined = pa.chunked_array(chain.from_iterable(one.chunks for one in ids), pa.large_string())
    ordered: NDArray[np.int64] = rows[pc.sort_indices(joined).to_numpy()]
    return ordered


def _images(tables: Sequence[pa.Table], order: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Rows of several tables, end to end, in some order, that is rising within each table."""
    firsts = np.cumsum([0, *map(len, tables)])
    for begin in range(0, len(order), IMAGES_AT_ONCE):
        wanted = order[begin : begin + IMAGES_AT_ONCE]
        parts, places, size = [], np.empty(len(wanted), np.int64), 0
        for table, first, last in zip(tables, firsts[:-1], firsts[1:], strict=True):
            own = (wanted >= first) & (wanted < last)
            if own.any():
                rows = wanted[own] - first
                # Rows that follow one another: a copy of what is taken, not of the whole table.
                parts.append(table.slice(rows[0], rows[-1] + 1 - rows[0]))
                places[own] = size + rows - rows[0]
                size += len(parts[-1])
        yield pa.concat_tables(parts).combine_chunks().take(places)
