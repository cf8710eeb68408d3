"""The search of columns in C, compiled when the package was built.

Raises:
    ImportError: when it is imported, where the package was built without a compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import SUPERBLOCK, Columns
from indexer.columns.native import _native


def best_documents(
    segments: list[Columns],
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
        segments: columns, the largest first.
        firsts: number of the first document of each.
        terms: [m] vocabulary ids.
        counts: [m] uint16 or uint32, how often the query holds each; a sum of impacts, each
            `LEVELS` larger, is below `NARROW` or 2^31.
        allowed: bool by number of documents that may be found; empty for all.
        occupied: superblocks, segment by segment, that have one of those; empty for all.
        k: documents at most.

    Returns:
        documents [n] int32 and scores [n] int64: of one segment falling by score, ties by document
        number; of several in no order. Only documents that share a term with the query.
    """
    size = sum(min(k, len(columns.order)) for columns in segments)
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
    documents, scores = np.empty(images, np.int32), np.empty(images, np.int64)
    found = _native.best_of_newest(
        impacts, images, terms, counts, allowed, k, floor, documents, scores
    )
    return documents[:found], scores[:found]


def impacts_at(
    columns: Columns, positions: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Impacts [d, m] of the images at some positions.

    Args:
        columns: of N images.
        positions: [d] of images, in any order.
        rows: [m] of terms, in any order; -1 for a term that no image has.
    """
    impacts = np.empty((len(positions), len(rows)), np.int64)
    _native.impacts_at(columns, positions, rows, impacts)
    return impacts


def impacts_of_row(columns: Columns, row: int) -> NDArray[np.uint16]:
    """Impacts [N] of all documents for the term of a row, 0 where one lacks it."""
    impacts = np.empty(len(columns.order), np.uint16)
    _native.impacts_of_row(columns, row, impacts)
    return impacts


def occupied(order: NDArray[np.int32], allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[superblocks] whether each has a document that may be found."""
    found = np.empty(-(-len(order) // SUPERBLOCK), np.bool_)
    _native.occupied(order, allowed, found)
    return found


def find_piece(
    texts: NDArray[np.uint8],
    starts: NDArray[np.int32],
    piece: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None:
    """Look for a piece in many words, by Horspool's search.

    Args:
        texts: the words in UTF-8, one behind another.
        starts: [W + 1] where each begins, and the last one ends.
        piece: in UTF-8, at least a byte.
        classes: [256] of each byte: sign, letter or digit, part of a letter.
        found: [W] uint8, set to 0 for words without it, 1 for those that have it with no letter or
            digit beside it, 2 if a letter that is not ASCII is beside it.
    """
    _native.find_piece(texts, starts, piece, classes, found)


def find_winners(
    data: NDArray[np.uint8],
    layouts: NDArray[np.int64],
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    won: NDArray[np.int64],
    regions: NDArray[np.int64],
    corners: NDArray[np.uint16],
    tokens: NDArray[np.int64],
    labels: NDArray[np.int64],
    words: NDArray[np.int64],
) -> tuple[int, int]:
    """Find what won some terms of some packed images; the w wanted terms have P winners.

    Args:
        data: of all images.
        layouts: [d, 10], a `Layout` for each image.
        terms: [m] rising vocabulary ids.
        order: [m], the column of each in `wanted`.
        wanted: [d, m], which terms of which images.
        won: [w], set to the number of each term's winner, -1 for none.
        regions: [w], the first P are set to the region that each winner won with.
        corners: [w, 4], likewise its box as it is packed.
        tokens: [w] of -1, likewise the vocabulary id of the label token that won, if one did.
        labels: [w, 2] of 0, likewise where the region's label begins and ends in `words`.
        words: [bytes of data], set to vocabulary ids of labels.

    Returns:
        the numbers of winners and of words.

    Raises:
        ValueError: if an image is damaged.
    """
    return _native.find_winners(
        data, layouts, terms, order, wanted, won, regions, corners, tokens, labels, words
    )
