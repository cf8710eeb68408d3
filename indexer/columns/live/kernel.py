"""The exact best k of several columns and of the newest images, in two calls."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.typed import List
from numpy.typing import NDArray

from indexer.columns.kernel import best_documents, compiled, replace_worst
from indexer.columns.layout import Columns


@compiled
def begin_list(columns: Columns) -> List[Columns]:
    """A list of columns that compiled code takes in one piece, whatever its length."""
    made = List()
    made.append(columns)
    return made


@compiled
def extend_list(segments: List[Columns], columns: Columns) -> None:
    """Append columns to such a list."""
    segments.append(columns)


@compiled
def best_of_segments(
    segments: List[Columns],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best documents of all segments, and others that are not below the k-th best.

    The k-th best score of the segments searched so far is the floor of the next one, in which
    then little is read.

    Args:
        segments: columns, the largest first.
        firsts: number of the first document of each.
        terms: [m] vocabulary ids.
        counts: [m] uint16 or uint32, how often the query holds each; no sum may overflow it.
        allowed: bool by number of documents that may be found; empty for all.
        occupied: superblocks, segment by segment, that have one of those; empty for all.
        k: documents at most.

    Returns:
        documents and scores, in no order.
    """
    size = 0
    for number in range(len(segments)):
        size += min(k, len(segments[number].order))
    documents, scores = np.empty(size, np.int32), np.empty(size, np.int64)
    best = np.zeros(k, np.int64)
    size, begin = 0, 0
    for number in range(len(segments)):
        columns, first = segments[number], firsts[number]
        rows = columns.row_of[terms]
        order = np.argsort(rows)
        order = order[rows[order] >= 0]
        images = len(columns.order)
        own = allowed[first : first + images] if len(allowed) else allowed
        rows = rows[order].astype(np.int64)
        end = begin + columns.maxima.shape[1]
        some = occupied[begin:end] if len(allowed) else occupied
        begin = end
        found, sums = best_documents(
            columns, rows, counts[order], own, some, min(k, images), best[0]
        )
        for i in range(len(found)):
            documents[size], scores[size] = first + found[i], sums[i]
            size += 1
            if sums[i] > best[0]:
                replace_worst(best, sums[i])
    return documents[:size], scores[:size]


@compiled
def best_of_newest(
    impacts: NDArray[Any],
    images: int,
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    k: int,
    floor: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best columns of a matrix, and others that are not below the k-th best.

    Args:
        impacts: [V, n] of the newest images.
        images: how many columns there are.
        terms: [m] vocabulary ids.
        counts: [m] uint16 or uint32, how often the query holds each; no sum may overflow it.
        allowed: bool by number of images that may be found; empty for all.
        k: images at most, not more than there are.
        floor: the least score of an image that may be found.

    Returns:
        numbers and scores, in no order; images that share no term with the query are not among
        them.
    """
    sums = np.zeros(images, counts.dtype)
    for i in range(len(terms)):
        count, row = counts[i], impacts[terms[i]]
        for image in range(images):
            sums[image] += count * row[image]
    least = np.int64(max(1, floor))
    best = np.full(k, least - 1)
    for image in range(images):
        if sums[image] > best[0] and (len(allowed) == 0 or allowed[image]):
            replace_worst(best, np.int64(sums[image]))
    least = max(least, best[0])
    found, size = np.empty(images, np.int32), 0
    for image in range(images):
        if sums[image] >= least and (len(allowed) == 0 or allowed[image]):
            found[size] = image
            size += 1
    found = found[:size]
    return found, sums[found].astype(np.int64)
