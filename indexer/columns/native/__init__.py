"""Columns made and searched in C, compiled when the package was built.

Raises:
    ImportError: when it is imported, where the package was built without a compiler.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK, Columns, PostingRows
from indexer.columns.native import _native
from indexer.columns.native._native import find_piece as find_piece
from indexer.columns.native._native import find_winners as find_winners
from indexer.columns.native._native import open_columns as open_columns

Opened: TypeAlias = Any  # columns, open for `best_documents`


def best_documents(
    segments: list[Opened],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best documents of all segments, and others that are not below the k-th best.

    A superblock's bound is the sum of its terms' largest impacts there. The few superblocks of the
    highest bounds come first; of the others, all below the k-th best score so far are skipped. An
    image's bound is the sum of its impacts in lists and of its levels in dense rows, or its
    block's; only those that reach that score are looked up in dense rows. The k-th best score of
    the segments searched so far is the floor of the next one, in which then little is read.

    Args:
        segments: opened columns, the largest first.
        firsts: number of the first document of each.
        terms: [m] vocabulary ids.
        counts: [m] uint16 or uint32, how often the query holds each; a sum of impacts, each
            `LEVELS` larger, is below `NARROW` or 2^31.
        allowed: bool by number of documents that may be found; empty for all.
        occupied: superblocks, segment by segment, that have one of those; empty for all.
        k: documents at most.

    Returns documents [n] and scores [n], of documents that share a term with the query: of one
    segment falling by score, ties by document number; of several in no order.
    """
    size = k * len(segments)
    documents, scores = np.empty(size, np.int32), np.empty(size, np.int64)
    found = _native.best_documents(
        segments, firsts, terms, counts, allowed, occupied, k, documents, scores
    )
    return documents[:found], scores[:found]


def best_of_newest(
    impacts: NDArray[Any],
    images: int,
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    k: int,
    floor: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best columns of a matrix [V, n], and others that are not below the k-th best.

    Of the columns `images` count, of which k is not more; `floor` is the least score of an image
    that may be found. The rest is as `best_documents` takes it. Returns numbers and scores, in no
    order, of images that share a term with the query.
    """
    documents, scores = np.empty(images, np.int32), np.empty(images, np.int64)
    found = _native.best_of_newest(
        impacts, images, terms, counts, allowed, k, floor, documents, scores
    )
    return documents[:found], scores[:found]


def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of images at positions [d] for rows [m]; row -1 has no image."""
    impacts = np.empty((len(positions), len(rows)), np.int64)
    _native.impacts_at(columns, positions, rows, impacts)
    return impacts


def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents for the term of a row, 0 where one lacks it."""
    impacts = np.empty(len(columns.order), np.uint16)
    _native.impacts_of_row(columns, row, impacts)
    return impacts


def project(rows: PostingRows, directions: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points [n, d] of n images, the sums of impact × direction of [V, d]; raises ValueError."""
    points = np.zeros((len(rows.starts) - 1, directions.shape[1]), np.float32)
    _native.project(*rows, directions, False, points)
    return points


def project_back(
    rows: PostingRows, points: NDArray[np.float32], vocabulary: int
) -> NDArray[np.float32]:
    """Directions [V, d], the sums of impact × point of [n, d] over n images; raises ValueError."""
    directions = np.zeros((vocabulary, points.shape[1]), np.float32)
    _native.project(*rows, points, True, directions)
    return directions


def transpose(
    starts: NDArray[np.int64], numbers: NDArray[np.int32], values: NDArray[np.uint16], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint16]]:
    """Of each number below `size` the rows that have it, rising, and their values.

    Row i has the numbers and values from starts[i] to starts[i + 1]. Raises ValueError.
    """
    turned = np.zeros(size + 1, np.int64), np.empty_like(numbers), np.empty_like(values)
    _native.transpose(starts, numbers, values, *turned)
    return turned


def survey(
    positions: NDArray[np.int32],
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    maxima: NDArray[Any],
    sizes: NDArray[np.uint8],
) -> None:
    """First pass: the largest impacts of superblocks, and how many postings they have.

    `positions` [n] of the images are counted from superblock `first`; `maxima` and `sizes` of
    `Columns` are of zeros there. Raises ValueError if something does not fit.
    """
    _native.survey(positions, *rows, first, row_of, maxima, sizes)


def fill(
    positions: NDArray[np.int32],
    rows: PostingRows,
    first: int,
    row_of: NDArray[np.int32],
    following: NDArray[np.int64],
    steps: NDArray[np.int64],
    levels: NDArray[np.uint8],
    bitmaps: NDArray[np.uint8],
    impacts: NDArray[Any],
    postings: NDArray[Any],
) -> None:
    """Second pass: dense rows and lists, in arrays of `Columns` that are of zeros there.

    `following` is where each row goes on. Raises ValueError if something does not fit.
    """
    where = following.copy()  # which moves on
    _native.fill(positions, *rows, first, row_of, steps, where, levels, bitmaps, impacts, postings)


def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found."""
    found = np.empty(-(-len(order) // SUPERBLOCK), np.bool_)
    _native.occupied(order, allowed, found)
    return found
