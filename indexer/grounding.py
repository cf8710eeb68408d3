"""Grounding: which region or label token won each term an image keeps, packed for the index.

Behind it is the image's vector, if the index keeps vectors for re-ranking.

What won the terms of many images is read from all of them at once, in C; where the package was
built without a compiler, each is unpacked.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexer.answer import Box, WinningLabel
from indexer.postings import NO_VECTOR, Inputs, Postings
from sparta.tokenizer import spelled

try:
    from indexer.columns.native import find_winners
except ImportError:
    find_winners = None  # type: ignore[assignment]


# Bytes per position and per label term, postings, bytes of term gaps, boxes, label tokens.
HEADER = struct.Struct("<BBIIHH")
WITH_VECTOR = 128  # added to the bytes per position of an image with a vector
ESCAPE = 255  # a gap of at least so much goes on in the next byte
BOX_STEPS = 65535
_CORNERS = 8  # bytes of a box
_UNSIGNED = {size: np.dtype(f"<u{size}") for size in (1, 2, 4)}

# What won the maximum of equation 10 for a term: the region that won, or that the winning label
# token labels; its box; and the label token, None if the region itself won.
Winner: TypeAlias = tuple[int | None, Box | None, WinningLabel | None]
UNKNOWN: Winner = (None, None, None)


@dataclass(frozen=True)
class Grounding:
    """Which positions won an image's terms.

    Attributes:
        terms: [n], ascending vocabulary ids.
        positions: [n], the position that won each term, -1 for none.
        inputs: what the positions refer to.
    """

    terms: NDArray[np.integer]
    positions: NDArray[np.integer]
    inputs: Inputs


def pack_all(images: Postings) -> list[bytes]:
    """Pack the grounding of each image: some 2 bytes a term, 8 a box and 3 a label token.

    Terms are stored as gaps, mostly one byte each, and boxes in steps of 1/65535. Positions take
    one byte up to 255 regions and label tokens, else two. A vector takes two bytes a number.
    """
    gaps, gap_starts = _gaps(images.terms, images.starts)
    corners = np.rint(images.boxes * BOX_STEPS).astype("<u2").tobytes()
    inputs = np.diff(images.box_starts) + np.diff(images.label_starts)
    position = [_narrowest(one).itemsize for one in (inputs - 1).tolist()]
    label = [_narrowest(one).itemsize for one in _largest(images.label_terms, images.label_starts)]
    positions = {size: images.positions.astype(f"<u{size}").tobytes() for size in {*position}}
    regions = {size: images.label_regions.astype(f"<u{size}").tobytes() for size in {*position}}
    labels = {size: images.label_terms.astype(f"<u{size}").tobytes() for size in {*label}}
    vectors = images.vectors or [NO_VECTOR] * len(images)
    packed = []
    for vector, p, w, (g, g2), (s, s2), (b, b2), (r, r2) in zip(
        vectors,
        position,
        label,
        pairwise(gap_starts),
        pairwise(images.starts.tolist()),
        pairwise(images.box_starts.tolist()),
        pairwise(images.label_starts.tolist()),
        strict=True,
    ):
        marked = p + WITH_VECTOR * bool(len(vector))
        header = HEADER.pack(marked, w, s2 - s, g2 - g, b2 - b, r2 - r)
        parts = (
            header,
            gaps[g:g2],
            positions[p][p * s : p * s2],
            corners[_CORNERS * b : _CORNERS * b2],
            labels[w][w * r : w * r2],
            regions[p][p * r : p * r2],
            vector.astype("<f2").tobytes(),
        )
        packed.append(b"".join(parts))
    return packed


def _gaps(terms: NDArray[np.int32], starts: NDArray[np.int64]) -> tuple[bytes, list[int]]:
    """The bytes of all images' gaps between terms, and where each image's begin."""
    gaps = np.diff(terms, prepend=0)
    first = starts[:-1][starts[:-1] < starts[1:]]
    gaps[first] = terms[first]
    large = np.flatnonzero(gaps >= ESCAPE)  # few
    escapes = gaps[large] // ESCAPE
    gaps[large] %= ESCAPE
    packed = np.insert(gaps.astype(np.uint8), np.repeat(large, escapes), ESCAPE)
    before = np.concatenate([[0], np.cumsum(escapes)])[np.searchsorted(large, starts)]
    return packed.tobytes(), (starts + before).tolist()


def _largest(values: NDArray[np.int32], starts: NDArray[np.int64]) -> list[int]:
    """The largest value of each image, 0 for one without any."""
    found = np.maximum.reduceat(np.append(values, 0), starts[:-1]) if len(starts) > 1 else starts
    largest: list[int] = np.where(np.diff(starts) > 0, found[: len(starts) - 1], 0).tolist()
    return largest


def unpack(data: bytes) -> Grounding:
    """Unpack one image."""
    at = Layout.of(data, 0, len(data))
    position, label = _UNSIGNED[at.position_size], _UNSIGNED[at.label_size]
    packed = np.frombuffer(data, position, at.terms, at.positions)
    positions = packed.astype(np.int32)
    positions[packed == _none(position)] = -1
    corners = np.frombuffer(data, _UNSIGNED[2], 4 * at.boxes, at.corners).reshape(-1, 4)
    label_terms = np.frombuffer(data, label, at.labels, at.label_terms)
    label_regions = np.frombuffer(data, position, at.labels, at.label_regions)
    regions = label_regions.astype(np.int16)
    gaps = np.frombuffer(data, np.uint8, at.positions - at.gaps, at.gaps)
    # The running sum of the bytes is the term wherever a byte ends a gap.
    terms = gaps.cumsum(dtype=np.int64)[gaps != ESCAPE]
    vector = vector_of(data)
    inputs = Inputs(relative(corners), label_terms.astype(np.int32), regions, vector)
    return Grounding(terms, positions, inputs)


def vector_of(data: bytes) -> NDArray[np.float16]:
    """The vector [d] of a packed image; empty if it has none."""
    at = Layout.of(data, 0, len(data))
    return np.frombuffer(data, "<f2", offset=at.label_regions + at.labels * at.position_size)


def without_vector(data: bytes) -> bytes:
    """A packed image as it is without its vector."""
    size = vector_of(data).nbytes
    return bytes([data[0] - WITH_VECTOR]) + data[1:-size] if size else data


def relative(corners: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Boxes as they are packed, relative to the photo."""
    boxes: NDArray[np.float32] = np.divide(corners, BOX_STEPS, dtype=np.float32)
    return boxes


class Layout(NamedTuple):
    """Where the parts of a packed image begin, in bytes, and how long they are.

    Attributes:
        position_size: bytes of a position.
        label_size: bytes of a label token's id.
        terms: number of terms.
        gaps: where the gaps between terms begin, a byte each, 255 for a gap that goes on.
        positions: where the positions begin, [terms] of `position_size`.
        corners: where the boxes begin, [boxes, 4] of two bytes, in steps of 1/65535.
        label_terms: where the label tokens' ids begin, [labels] of `label_size`.
        label_regions: where their regions begin, [labels] of `position_size`.
        boxes: number of regions.
        labels: number of label tokens.
    """

    position_size: int
    label_size: int
    terms: int
    gaps: int
    positions: int
    corners: int
    label_terms: int
    label_regions: int
    boxes: int
    labels: int

    @classmethod
    def of(cls, data: bytes, start: int, end: int) -> Layout:
        """The layout of one packed image; raises ValueError or struct.error if it is damaged."""
        marked, label_size, count, gap_bytes, boxes, labels = HEADER.unpack_from(data, start)
        position_size = marked % WITH_VECTOR
        positions = start + HEADER.size + gap_bytes
        corners = positions + count * position_size
        label_terms = corners + 4 * _UNSIGNED[2].itemsize * boxes
        label_regions = label_terms + labels * label_size
        sizes_exist = position_size in _UNSIGNED and label_size in _UNSIGNED
        rest = end - label_regions - labels * position_size
        fits = rest > 0 and rest % 2 == 0 if marked >= WITH_VECTOR else rest == 0
        if not sizes_exist or not fits:
            raise ValueError("a grounding is damaged")
        return cls(
            position_size,
            label_size,
            count,
            start + HEADER.size,
            positions,
            corners,
            label_terms,
            label_regions,
            boxes,
            labels,
        )


def _none(position: np.dtype) -> int:
    """The position of a term that nothing won: the largest value of the type."""
    return (1 << 8 * position.itemsize) - 1


def _narrowest(largest: int) -> np.dtype:
    """The narrowest unsigned type with one value to spare above the largest."""
    return next(kind for kind in _UNSIGNED.values() if largest < _none(kind))


def winners(
    packed: Sequence[bytes],
    terms: NDArray[np.int64],
    wanted: NDArray[np.bool_],
    vocabulary: Sequence[str],
) -> list[Winner]:
    """What won some terms [m] of some images [d], which `pack_all` packed.

    Row by row, where they are `wanted` [d, m]. Raises ValueError, IndexError or struct.error if an
    image is damaged.
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
    count, order = np.count_nonzero(wanted), terms.argsort()
    won, tokens = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    regions, corners = np.empty(count, np.int64), np.empty((count, 4), np.uint16)
    labels, words = np.zeros((count, 2), np.int64), np.empty(len(data), np.int64)
    images = np.frombuffer(data, np.uint8), np.array(layouts, np.int64)
    different, spoken = find_winners(
        *images, terms[order], order, wanted, won, regions, corners, tokens, labels, words
    )
    spoken_words = [vocabulary[term] for term in words[:spoken].tolist()]
    places_of = zip(tokens[:different].tolist(), labels[:different].tolist(), strict=True)
    named = (
        WinningLabel(vocabulary[token], spelled(spoken_words[first:last])) if token >= 0 else None
        for token, (first, last) in places_of
    )
    boxes = zip(*relative(corners[:different]).T.tolist(), strict=True)
    # Of which -1 is the number of no winner.
    winner_of = [*zip(regions[:different].tolist(), boxes, named, strict=True), UNKNOWN]
    return [winner_of[number] for number in won.tolist()]


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
            label = WinningLabel(vocabulary[inputs.label_terms[token]], spelled(words))
        yield (region, tuple(boxes[region]), label) if place >= 0 else UNKNOWN
