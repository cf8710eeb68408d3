"""What won the terms of many packed images, in numba, where there is no compiler for C.

It is the reference of `indexer/columns/native/winners.h`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.grounding import ESCAPE, Layout

compiled = njit(cache=True, nogil=True)


class Found(NamedTuple):
    """Arrays as `find_winners` takes them."""

    won: NDArray[np.int64]
    regions: NDArray[np.int64]
    corners: NDArray[np.uint16]
    tokens: NDArray[np.int64]
    labels: NDArray[np.int64]
    words: NDArray[np.int64]


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
    found = Found(won, regions, corners, tokens, labels, words)
    return _find(data, Layout(*layouts.T), terms, order, wanted, found)


@compiled
def _find(
    data: NDArray[np.uint8],
    at: Any,
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    found: Found,
) -> tuple[int, int]:
    """See `find_winners`; `at` is a `Layout` of arrays [d]."""
    term = winner = word = 0
    for image in range(len(wanted)):
        positions = _positions(data, at, image, terms, order)
        number_of = np.full(at.boxes[image] + at.labels[image], -1, np.int64)
        labelled = np.full(at.boxes[image], -1, np.int64)
        for position in positions[wanted[image]]:
            if position >= len(number_of):
                raise ValueError("a grounding is damaged")
            if position >= 0 and number_of[position] < 0:
                number_of[position] = winner
                word = _describe(data, at, image, position, labelled, found, winner, word)
                winner += 1
            found.won[term] = number_of[position] if position >= 0 else -1
            term += 1
    return winner, word


@compiled
def _positions(
    data: NDArray[np.uint8],
    at: Any,
    image: int,
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
) -> NDArray[np.int64]:
    """[m], the position that won each term of one image, -1 for none."""
    positions = np.full(len(terms), -1, np.int64)
    size, wanted, found, term = at.position_size[image], 0, 0, 0
    nothing = (1 << 8 * size) - 1
    for gap in data[at.gaps[image] : at.positions[image]]:
        term += gap
        if gap == ESCAPE:
            continue
        if found == at.terms[image]:
            raise ValueError("a grounding is damaged")
        while wanted < len(terms) and terms[wanted] <= term:
            if terms[wanted] == term:
                position = _number(data, at.positions[image] + found * size, size)
                positions[order[wanted]] = position if position != nothing else -1
            wanted += 1
        found += 1
    return positions


@compiled
def _describe(
    data: NDArray[np.uint8],
    at: Any,
    image: int,
    position: int,
    labelled: NDArray[np.int64],
    found: Found,
    winner: int,
    word: int,
) -> int:
    """Write what a position of an image stands for.

    Args:
        data: of all images.
        at: their layouts.
        image: number of the image.
        position: of the region or label token that won.
        labelled: [boxes], a winner with the label of each region, -1 for none so far.
        found: what is written.
        winner: number of the winner.
        word: number of words so far.

    Returns:
        number of words now.
    """
    region, label = position, position - at.boxes[image]
    if label >= 0:
        size, label_size = at.position_size[image], at.label_size[image]
        ids, regions = at.label_terms[image], at.label_regions[image]
        region = _number(data, regions + label * size, size)
        if region >= len(labelled):
            raise ValueError("a grounding is damaged")
        found.tokens[winner] = _number(data, ids + label * label_size, label_size)
        if labelled[region] < 0:
            labelled[region], found.labels[winner, 0] = winner, word
            for other in range(at.labels[image]):
                if _number(data, regions + other * size, size) == region:
                    found.words[word] = _number(data, ids + other * label_size, label_size)
                    word += 1
            found.labels[winner, 1] = word
        found.labels[winner] = found.labels[labelled[region]]
    found.regions[winner] = region
    for corner in range(4):
        place = at.corners[image] + 8 * region + 2 * corner
        found.corners[winner, corner] = _number(data, place, 2)
    return word


@compiled
def _number(data: NDArray[np.uint8], place: int, size: int) -> int:
    """A number of some bytes, the lowest first."""
    number = 0
    for byte in range(size):
        number |= data[place + byte] << 8 * byte
    return number
