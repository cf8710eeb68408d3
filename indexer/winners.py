"""What won the terms of many images, read from all their packed groundings at once.

Compiled by numba: calling NumPy for each image would take longer than reading it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.grounding import ESCAPE, UNKNOWN, Layout, Winner, WinningLabel, relative

compiled = njit(cache=True, nogil=True)


class _Found(NamedTuple):
    """The P different winners of some images.

    Attributes:
        won: for each wanted term the number of its winner, -1 for none.
        regions: [P], the region that each won with.
        corners: [P, 4], its box as it is packed.
        tokens: [P], vocabulary id of the label token that won, -1 if the region itself did.
        labels: [P, 2], where the label of the region begins and ends in `words`.
        words: vocabulary ids of labels.
    """

    won: NDArray[np.int64]
    regions: NDArray[np.int64]
    corners: NDArray[np.uint16]
    tokens: NDArray[np.int64]
    labels: NDArray[np.int64]
    words: NDArray[np.int64]


def winners(
    packed: Sequence[bytes],
    terms: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    vocabulary: Sequence[str],
) -> list[Winner]:
    """What won some terms of some packed images.

    Args:
        packed: [d] images, as `indexer.grounding.pack` returns them.
        terms: [m] vocabulary ids.
        wanted: [d, m], which terms of which images.
        vocabulary: [V] terms in id order.

    Returns:
        those of the wanted terms, row by row.

    Raises:
        ValueError, IndexError, struct.error: if an image is damaged.
    """
    data = b"".join(packed)
    places = pairwise(accumulate(map(len, packed), initial=0))
    layouts = [Layout.of(data, start, end) for start, end in places]
    if not wanted.any():
        return []
    at, order = Layout(*np.array(layouts, np.int64).T), terms.argsort()
    found = _find(np.frombuffer(data, np.uint8), at, terms[order], order, wanted)
    winner_of = [*_winners(found, vocabulary), UNKNOWN]  # of which -1 is the number
    return [winner_of[number] for number in found.won.tolist()]


def _winners(found: _Found, vocabulary: Sequence[str]) -> Iterator[Winner]:
    words = [vocabulary[term] for term in found.words.tolist()]
    labels = (
        WinningLabel(vocabulary[token], _label(words[first:last])) if token >= 0 else None
        for token, (first, last) in zip(found.tokens.tolist(), found.labels.tolist(), strict=True)
    )
    boxes = zip(*relative(found.corners).T.tolist(), strict=True)
    return zip(found.regions.tolist(), boxes, labels, strict=True)


def _label(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else " ".join(words).replace(" ##", "")


@compiled
def _find(
    data: NDArray[np.uint8],
    at: Any,
    terms: NDArray[np.int64],
    order: NDArray[np.int64],
    wanted: NDArray[np.bool_],
) -> _Found:
    """What won some terms of some packed images.

    Args:
        data: of all images.
        at: a `Layout` of arrays [d], one number for each image.
        terms: [m] rising vocabulary ids.
        order: [m], the column of each in `wanted`.
        wanted: [d, m], which terms of which images.
    """
    count = np.count_nonzero(wanted)
    won, tokens = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    regions, corners = np.empty(count, np.int64), np.empty((count, 4), np.uint16)
    labels, words = np.zeros((count, 2), np.int64), np.empty(len(data), np.int64)
    found = _Found(won, regions, corners, tokens, labels, words)
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
            won[term] = number_of[position] if position >= 0 else -1
            term += 1
    return _Found(
        won, regions[:winner], corners[:winner], tokens[:winner], labels[:winner], words[:word]
    )


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
    found: _Found,
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
