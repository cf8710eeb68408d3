"""The newest images of a snapshot become a segment, and its deletions files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from indexer.columns.image_table import image_rows
from indexer.columns.live.segment_writer import write_segment
from indexer.columns.live.snapshot import LiveColumns
from indexer.columns.live.state import ColumnState, kinds_of, segment_name
from indexer.columns.row_files import PostingRows

AT_ONCE = 512  # images whose impacts for all terms are in memory


def compact(index: Path, columns: LiveColumns, number: int) -> ColumnState:
    """Write a state with the images of a snapshot, after which an empty change log begins.

    Args:
        index: the index folder.
        columns: the snapshot.
        number: of the new state and segment; no state or segment had it before.
    """
    live = np.ones(columns.documents, np.bool_) if columns.live is None else columns.live
    segments, first = {}, 0
    for segment in columns.segments.all:
        name = segment.folder.relative_to(index).as_posix()
        segments[name] = live[first : first + len(segment)]
        first += len(segment)
    places = dict(sorted(columns.places.items()))
    if places:
        documents = list(places.values())
        images = image_rows(places, (columns.stored(one).metadata for one in documents))
        order = np.arange(len(documents))
        name = segment_name(number)
        shape = columns.vocabulary, columns.bits
        kinds = kinds_of(index, segments)
        rows = _rows(columns, documents)
        write_segment(index / name, shape, rows, order, [images], kinds=kinds)
        segments[name] = np.ones(len(documents), np.bool_)
    return ColumnState.save(index, number, segments)


def _rows(columns: LiveColumns, documents: Sequence[int]) -> Iterator[PostingRows]:
    """The postings of some newest images."""
    terms = np.flatnonzero(np.max([one.largest for one in columns.newest], axis=0))
    for first in range(0, len(documents), AT_ONCE):
        impacts = columns.impacts(documents[first : first + AT_ONCE], terms.tolist())
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(impacts, axis=1))])
        images, places = impacts.nonzero()
        yield PostingRows(starts, terms[places], impacts[images, places])
