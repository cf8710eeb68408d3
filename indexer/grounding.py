"""Grounding: which region or label token won each term an image keeps, packed for the index."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Bytes per position and per label term, postings, bytes of term gaps, boxes, label tokens.
_HEADER = struct.Struct("<BBIIHH")
_ESCAPE = 255
_BOX_STEPS = 65535
_UNSIGNED = {size: np.dtype(f"<u{size}") for size in (1, 2, 4)}

Box = tuple[float, float, float, float]  # x1, y1, x2, y2 relative to the photo


@dataclass(frozen=True)
class Inputs:
    """The input positions of an image, as a model reads them.

    The r regions are positions 0 to r - 1, the k label tokens r to r + k - 1.

    Attributes:
        boxes: [r, 4] float32, the regions' x1, y1, x2, y2 relative to the photo.
        label_terms: [k] int32, the tokens' vocabulary ids.
        label_regions: [k] int16, the region each token labels.
    """

    boxes: NDArray[np.float32]
    label_terms: NDArray[np.int32]
    label_regions: NDArray[np.int16]


# Not frozen, which takes twice as long to make: an answer can have ten thousand.
@dataclass(slots=True)
class WinningLabel:
    """A label token that won the maximum of equation 10.

    Attributes:
        token: the word piece.
        words: its region's attribute and label, as far as the model read them.
    """

    token: str
    words: str


class Winner(NamedTuple):
    """What won the maximum of equation 10 for a term; all None if unknown.

    Attributes:
        region: the region that won, or that the winning label token labels.
        box: that region's.
        label: the label token, None if the region itself won.
    """

    region: int | None = None
    box: Box | None = None
    label: WinningLabel | None = None


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


def pack(grounding: Grounding) -> bytes:
    """Pack one image: about two bytes per term, eight per box and three per label token.

    Terms are stored as gaps, mostly one byte each, and boxes in steps of 1/65535.
    Positions take one byte up to 255 regions and label tokens, else two.
    """
    ids, read = grounding.terms.astype(np.int64), grounding.inputs
    gaps = ids - np.concatenate([[0], ids[:-1]])
    escapes = gaps // _ESCAPE
    packed_gaps = np.full(len(gaps) + int(escapes.sum()), _ESCAPE, np.uint8)
    packed_gaps[np.cumsum(escapes + 1) - 1] = gaps % _ESCAPE
    # -1 wraps around to the largest value of the type, which no position has.
    position = _narrowest(len(read.boxes) + len(read.label_terms) - 1)
    label = _narrowest(int(read.label_terms.max(initial=0)))
    header = _HEADER.pack(
        position.itemsize,
        label.itemsize,
        len(gaps),
        len(packed_gaps),
        len(read.boxes),
        len(read.label_terms),
    )
    parts = (
        packed_gaps,
        grounding.positions.astype(position),
        np.rint(read.boxes * _BOX_STEPS).astype("<u2"),
        read.label_terms.astype(label),
        read.label_regions.astype(position),
    )
    return header + b"".join(part.tobytes() for part in parts)


def unpack(data: bytes) -> Grounding:
    """Unpack one image."""
    parts = _Parts.of(data)
    positions = parts.positions.astype(np.int32)
    positions[parts.positions == _none(parts.positions.dtype)] = -1
    inputs = Inputs(
        parts.relative_boxes(),
        parts.label_terms.astype(np.int32),
        parts.label_regions.astype(np.int16),
    )
    return Grounding(parts.terms(), positions, inputs)


def winners(data: bytes, terms: NDArray[np.integer], vocabulary: Sequence[str]) -> list[Winner]:
    """What won each of some terms of one packed image.

    Args:
        data: of the image, as `pack` returns it.
        terms: [m] vocabulary ids.
        vocabulary: [V] terms in id order.

    Returns:
        [m].
    """
    parts = _Parts.of(data)
    own = parts.terms()
    if not len(own):
        return [Winner()] * len(terms)
    places = own.searchsorted(terms)
    positions = parts.positions.take(places, mode="clip")
    positions[own.take(places, mode="clip") != terms] = _none(positions.dtype)
    won_at = parts.winners(set(positions.tolist()), vocabulary)
    return [won_at[position] for position in positions.tolist()]


class _Parts(NamedTuple):
    """The parts of a packed image, as they are packed."""

    gaps: NDArray[np.uint8]
    positions: NDArray[np.unsignedinteger]
    boxes: NDArray[np.uint16]
    label_terms: NDArray[np.unsignedinteger]
    label_regions: NDArray[np.unsignedinteger]

    @classmethod
    def of(cls, data: bytes) -> _Parts:
        position_size, label_size, count, gap_bytes, boxes, labels = _HEADER.unpack_from(data)
        if not {position_size, label_size} <= _UNSIGNED.keys():
            raise ValueError("a grounding has numbers of no size")
        position, label = _UNSIGNED[position_size], _UNSIGNED[label_size]
        places = _HEADER.size + gap_bytes
        corners = places + count * position_size
        terms = corners + 8 * boxes
        return cls(
            np.frombuffer(data, np.uint8, gap_bytes, _HEADER.size),
            np.frombuffer(data, position, count, places),
            np.frombuffer(data, _UNSIGNED[2], 4 * boxes, corners),
            np.frombuffer(data, label, labels, terms),
            np.frombuffer(data, position, labels, terms + labels * label_size),
        )

    def terms(self) -> NDArray[np.int64]:
        # The running sum of the bytes is the term wherever a byte ends a gap.
        terms: NDArray[np.int64] = self.gaps.cumsum(dtype=np.int64)[self.gaps != _ESCAPE]
        return terms

    def relative_boxes(self) -> NDArray[np.float32]:
        corners = self.boxes.reshape(-1, 4)
        relative: NDArray[np.float32] = np.divide(corners, _BOX_STEPS, dtype=np.float32)
        return relative

    def winners(self, positions: set[int], vocabulary: Sequence[str]) -> dict[int, Winner]:
        """What each of some positions, as they are packed, stands for."""
        boxes = self.relative_boxes().tolist()
        regions: list[int] = self.label_regions.tolist()
        tokens = [vocabulary[term] for term in self.label_terms.tolist()]
        words: dict[int, str] = {}
        for region, token in zip(regions, tokens, strict=True):
            words[region] = f"{words[region]} {token}" if region in words else token
        won = {_none(self.positions.dtype): Winner()}
        for position in positions - won.keys():
            place, region, label = position - len(boxes), position, None
            if place >= 0:
                region = regions[place]
                label = WinningLabel(tokens[place], words[region].replace(" ##", ""))
            won[position] = Winner(region, tuple(boxes[region]), label)
        return won


def _none(position: np.dtype[Any]) -> int:
    """The position of a term that nothing won: the largest value of the type."""
    return (1 << 8 * position.itemsize) - 1


def _narrowest(largest: int) -> np.dtype:
    """The narrowest unsigned type with one value to spare above the largest."""
    return next(kind for kind in _UNSIGNED.values() if largest < _none(kind))
