"""Orders images by recursive graph bisection, to be compared with the order that ships.

Images and terms are the two sides of a graph; parts of the images are halved so that each half
shares few terms with the other (Dhulipala, Kabiljo, Karrer, Ottaviano, Pupyrev and Shalita 2016,
"Compressing graphs and indexes with recursive graph bisection").
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.columns.ordering import halvings, topical_order
from indexer.columns.row_files import SpooledRows

ITERATIONS = 20  # exchanges between two halves at most


def bisected_order(rows: SpooledRows) -> NDArray[np.int32]:
    """Start from the order that ships, and exchange images between halves, from the whole down.

    All postings are in memory.

    Args:
        rows: postings of N images.

    Returns:
        [N] int32, image numbers in their new order.
    """
    order = topical_order(rows)
    postings = rows.take(np.arange(len(rows)))
    for first, half, last in halvings(len(rows)):
        one, other = order[first:half], order[half:last]
        for _ in range(ITERATIONS):
            left, right = (
                gains(postings.starts, postings.terms, *pair, len(rows.frequencies))
                for pair in ((one, other), (other, one))
            )
            if not _exchange(one, other, left, right):
                break
    return order


@njit(cache=True, nogil=True)
def gains(
    starts: NDArray[np.int64],
    terms: NDArray[Any],
    own: NDArray[np.int32],
    others: NDArray[np.int32],
    vocabulary: int,
) -> NDArray[np.float32]:
    """Bits that are saved if one image moves from its half to the other.

    A term that d of a half's n images have costs d log2(n / (d + 1)) bits there, about those of the
    gaps between them (equation 1 of the paper).

    Args:
        starts: [N + 1] where the terms of each image begin.
        terms: [P] ids.
        own: numbers of the images of the half.
        others: of the other half.
        vocabulary: number of terms.
    """
    here, there = (
        _degrees(starts, terms, own, vocabulary),
        _degrees(starts, terms, others, vocabulary),
    )
    saved = np.zeros(vocabulary, np.float32)
    for term in range(vocabulary):
        if here[term]:
            a, b = here[term], there[term]
            before = _bits(a, len(own)) + _bits(b, len(others))
            saved[term] = before - _bits(a - 1, len(own)) - _bits(b + 1, len(others))
    found = np.zeros(len(own), np.float32)
    for place, image in enumerate(own):
        for posting in range(starts[image], starts[image + 1]):
            found[place] += saved[terms[posting]]
    return found


@njit(cache=True, nogil=True)
def _degrees(
    starts: NDArray[np.int64], terms: NDArray[Any], images: NDArray[np.int32], vocabulary: int
) -> NDArray[np.int64]:
    """How many of some images have each term."""
    found = np.zeros(vocabulary, np.int64)
    for image in images:
        for posting in range(starts[image], starts[image + 1]):
            found[terms[posting]] += 1
    return found


@njit(cache=True, nogil=True)
def _bits(degree: int, images: int) -> float:
    bits: float = degree * np.log2(images / (degree + 1))
    return bits


def _exchange(
    left: NDArray[np.int32],
    right: NDArray[np.int32],
    from_left: NDArray[np.float32],
    from_right: NDArray[np.float32],
) -> int:
    """Exchange pairs in place, those that gain most first, as long as both together gain."""
    one, other = np.argsort(-from_left, kind="stable"), np.argsort(-from_right, kind="stable")
    pairs = min(len(one), len(other))
    count = int(np.count_nonzero(from_left[one[:pairs]] + from_right[other[:pairs]] > 0))
    one, other = one[:count], other[:count]
    left[one], right[other] = right[other], left[one]
    return count
