"""Lists of postings in chunks: each a part of a long list, or some short ones.

Rows are the terms by falling document frequency, so that lists of a chunk are of similar kind. A
term in more images than a chunk has postings has chunks of its own, of a fixed number of
superblocks each, and the largest impact of each superblock in the pack of bounds. Which chunks
there are follows from the document frequencies alone (`chunk_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from server.publish.packs import deflated, leb128

SUPERBLOCK = 256  # images
CHUNK = 4096  # postings, about


class Planned(NamedTuple):
    """A chunk.

    Attributes:
        first: the first row.
        end: the row after the last one.
        start: the first superblock.
        stop: the one after the last.
    """

    first: int
    end: int
    start: int
    stop: int


def chunk_plan(frequencies: NDArray[np.integer], images: int, most: int) -> Iterator[Planned]:
    """The chunks of all rows.

    Args:
        frequencies: [T] of the rows, falling, none 0.
        images: N.
        most: postings of a chunk, about.
    """
    superblocks = -(-images // SUPERBLOCK)
    row = 0
    while row < len(frequencies):
        frequency = int(frequencies[row])
        if frequency > most:
            step = max(1, most * superblocks // frequency)
            for start in range(0, superblocks, step):
                yield Planned(row, row + 1, start, min(start + step, superblocks))
            row += 1
            continue
        first, room = row, most
        while row < len(frequencies) and frequencies[row] <= room:
            room -= int(frequencies[row])
            row += 1
        yield Planned(first, row, 0, superblocks)


def posting_chunks(
    columns: csc_array, rows: NDArray[np.integer], bits: int, most: int
) -> Iterator[bytes]:
    """The chunks, compressed: gaps between positions, then impacts; of 16 bits the low bytes first.

    Args:
        columns: [positions, V] impacts, sorted by position in each column.
        rows: [T] the terms in order.
        bits: of an impact.
        most: postings of a chunk, about.
    """
    starts, positions, impacts = columns.indptr, columns.indices, columns.data
    frequencies = np.diff(starts)[rows]
    for first, end, start, stop in chunk_plan(frequencies, columns.shape[0], most):
        gaps, own = [], []
        for term in rows[first:end].tolist():
            list_positions = positions[starts[term] : starts[term + 1]]
            place, last = np.searchsorted(list_positions, [start * SUPERBLOCK, stop * SUPERBLOCK])
            part = slice(starts[term] + place, starts[term] + last)
            before = start * SUPERBLOCK - 1
            gaps.append(np.diff(positions[part].astype(np.int64), prepend=before) - 1)
            own.append(impacts[part])
        joined = np.concatenate(own)
        planes = [joined & 255, joined >> 8] if bits > 8 else [joined]
        parts = [plane.astype(np.uint8).tobytes() for plane in planes]
        if len(joined):
            yield deflated(leb128(np.concatenate(gaps)).tobytes(), *parts, repetitive=False)
        else:
            yield b""


def bound_chunks(
    columns: csc_array, rows: NDArray[np.integer], bits: int, most: int
) -> Iterator[bytes]:
    """For each term with chunks of its own, the largest impact of each superblock, compressed.

    They are of 8 bits; of larger impacts the upper 8, rounded up, where 255 stands for the largest
    impact of the term.
    """
    superblocks = -(-columns.shape[0] // SUPERBLOCK)
    scale = 1 << max(0, bits - 8)
    for term in rows[np.diff(columns.indptr)[rows] > most].tolist():
        own = slice(columns.indptr[term], columns.indptr[term + 1])
        maxima = np.zeros(superblocks, np.int64)
        impacts = columns.data[own].astype(np.int64)
        np.maximum.at(maxima, columns.indices[own] // SUPERBLOCK, impacts)
        rounded = np.minimum(-(-maxima // scale), 255)
        yield deflated(rounded.astype(np.uint8).tobytes(), repetitive=False)
