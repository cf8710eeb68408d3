"""The images of a change log become a segment, and its deletions files."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from indexer.columns.image_table import ImageTable
from indexer.columns.image_writer import image_rows
from indexer.columns.live.newest import NewImage
from indexer.columns.live.segment_writer import write_segment
from indexer.columns.live.state import ColumnState, kinds_of, live_images, segment_name
from indexer.columns.row_files import PostingRows

AT_ONCE = 512  # images whose postings are copied together


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
