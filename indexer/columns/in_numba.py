"""The search of columns in numba, where there is no compiler for `indexer.columns.native`.

It is the reference of that: the same functions in plain loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns import kernel
from indexer.columns.kernel import compiled, dense_impact, list_of, replace_worst, unpack
from indexer.columns.layout import PLACE_BITS, PLACE_MASK, PLACES, SUPERBLOCK, Columns


def best_documents(
    segments: list[Columns],
    firsts: NDArray[np.int64],
    terms: NDArray[np.int64],
    counts: NDArray[Any],
    allowed: NDArray[np.bool_],
    occupied: NDArray[np.bool_],
    most: NDArray[np.int64],
    k: int,
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The k best documents of all segments, and others that are not below the k-th best.

    The k-th best score of the segments searched so far is the floor of the next one, in which
    then little is read.

    Args:
        segments: columns, the largest first.
        firsts: number of the first document of each.
        terms: [m] vocabulary ids.
        counts: [m] uint16 or uint32, how often the query holds each; see
            `kernel.best_documents`.
        allowed: bool by number of documents that may be found; empty for all.
        occupied: superblocks, segment by segment, that have one of those; empty for all.
        most: superblocks of each segment that are visited at most, see `kernel.best_documents`;
            empty for all.
        k: documents at most.

    Returns:
        documents [n] int32 and scores [n] int64: of one segment falling by score, ties by document
        number; of several in no order. Only documents that share a term with the query.
    """
    documents, scores = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    floor, begin = 0, 0
    for number, (columns, first) in enumerate(zip(segments, firsts.tolist(), strict=True)):
        images, superblocks = len(columns.order), columns.maxima.shape[1]
        rows = columns.row_of[terms]
        order = np.argsort(rows)
        order = order[rows[order] >= 0]
        found, sums = kernel.best_documents(
            columns,
            rows[order].astype(np.int64),
            counts[order],
            allowed[first : first + images],
            occupied[begin : begin + superblocks],
            int(most[number]) if len(most) else superblocks,
            min(k, images),
            floor,
        )
        begin += superblocks
        documents.append(found + np.int32(first))
        scores.append(sums)
        every = np.concatenate(scores)
        if len(every) >= k:
            floor = int(np.partition(every, -k)[-k])
    return np.concatenate(documents), np.concatenate(scores)


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


@compiled
def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of the images at some positions [d].

    Args:
        columns: of N images.
        positions: [d] of images, in any order.
        rows: [m] of terms, in any order; -1 for a term that no image has.
    """
    impacts = np.zeros((len(positions), len(rows)), np.int64)
    for i in range(len(rows)):
        for d in range(len(positions)):
            superblock, place = positions[d] // SUPERBLOCK, positions[d] % SUPERBLOCK
            if rows[i] >= len(columns.steps):
                for posting in list_of(columns, rows[i], superblock):
                    if posting & PLACE_MASK == place:
                        impacts[d, i] = posting >> PLACE_BITS
            elif rows[i] >= 0:
                impacts[d, i] = dense_impact(columns, rows[i], superblock, place)
    return impacts


@compiled
def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents for the term of a row, 0 where one lacks it."""
    impacts = np.zeros(len(columns.order), np.uint16)
    superblocks = columns.maxima.shape[1]
    if row < len(columns.steps):
        unpacked = np.empty(PLACES, columns.impacts.dtype)
        for superblock in range(superblocks):
            unpack(columns, row, superblock, unpacked)
            for place in range(min(SUPERBLOCK, len(impacts) - superblock * SUPERBLOCK)):
                document = columns.order[superblock * SUPERBLOCK + place]
                impacts[document] = unpacked[place]
        return impacts
    for superblock in range(superblocks):
        for posting in list_of(columns, row, superblock):
            position = superblock * SUPERBLOCK + np.int64(posting & PLACE_MASK)
            impacts[columns.order[position]] = posting >> PLACE_BITS
    return impacts


@compiled
def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found.

    Args:
        order: [N] the document at each position.
        allowed: [N] documents that may be found.
    """
    found = np.zeros(-(-len(order) // SUPERBLOCK), np.bool_)
    for s in range(len(found)):
        for document in order[s * SUPERBLOCK : (s + 1) * SUPERBLOCK]:
            if allowed[document]:
                found[s] = True
                break
    return found
