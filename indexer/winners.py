"""What won the terms of many images, read from all their packed groundings at once in C.

Where the package was built without a compiler, each is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexer.grounding import UNKNOWN, Layout, Winner, WinningLabel, relative, unpack

try:
    from indexer.columns.native import find_winners
except ImportError:
    find_winners = None  # type: ignore[assignment]


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
    if find_winners is None:
        return [
            winner
            for one, own in zip(packed, wanted, strict=True)
            for winner in _unpacked(one, terms[own].tolist(), vocabulary)
        ]
    data = b"".join(packed)
    places = pairwise(accumulate(map(len, packed), initial=0))
    layouts = [Layout.of(data, start, end) for start, end in places]
    if not wanted.any():
        return []
    found = _find(np.frombuffer(data, np.uint8), np.array(layouts, np.int64), terms, wanted)
    winner_of = [*_winners(found, vocabulary), UNKNOWN]  # of which -1 is the number
    return [winner_of[number] for number in found.won.tolist()]


def _unpacked(packed: bytes, terms: Sequence[int], vocabulary: Sequence[str]) -> Iterator[Winner]:
    """What won some terms of one image."""
    found = unpack(packed)
    inputs, boxes = found.inputs, found.inputs.boxes.tolist()
    # Backwards: the first position of a term that damage names twice, as the kernel takes it.
    places = zip(found.terms.tolist()[::-1], found.positions.tolist()[::-1], strict=True)
    position_of = dict(places)
    for term in terms:
        place = position_of.get(term, -1)
        token, label = place - len(boxes), None
        region = place if token < 0 else int(inputs.label_regions[token])
        if token >= 0:
            spoken = inputs.label_terms[inputs.label_regions == region].tolist()
            words = [vocabulary[word] for word in spoken]
            label = WinningLabel(vocabulary[inputs.label_terms[token]], _label(words))
        yield (region, tuple(boxes[region]), label) if place >= 0 else UNKNOWN


def _find(
    data: NDArray[np.uint8],
    layouts: NDArray[np.int64],
    terms: NDArray[np.int64],
    wanted: NDArray[np.bool_],
) -> _Found:
    count, order = np.count_nonzero(wanted), terms.argsort()
    won, tokens = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    regions, corners = np.empty(count, np.int64), np.empty((count, 4), np.uint16)
    labels, words = np.zeros((count, 2), np.int64), np.empty(len(data), np.int64)
    winner, word = find_winners(
        data, layouts, terms[order], order, wanted, won, regions, corners, tokens, labels, words
    )
    return _Found(
        won, regions[:winner], corners[:winner], tokens[:winner], labels[:winner], words[:word]
    )


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
