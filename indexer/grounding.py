"""Grounding: which region or label token won each term an image keeps, packed for the index."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Bytes per position and per label term, postings, bytes of term gaps, boxes, label tokens.
HEADER = struct.Struct("<BBIIHH")
ESCAPE = 255  # a gap of at least so much goes on in the next byte
BOX_STEPS = 65535
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


def pack(grounding: Grounding) -> bytes:
    """Pack one image: about two bytes per term, eight per box and three per label token.

    Terms are stored as gaps, mostly one byte each, and boxes in steps of 1/65535.
    Positions take one byte up to 255 regions and label tokens, else two.
    """
    ids, read = grounding.terms.astype(np.int64), grounding.inputs
    gaps = ids - np.concatenate([[0], ids[:-1]])
    escapes = gaps // ESCAPE
    packed_gaps = np.full(len(gaps) + int(escapes.sum()), ESCAPE, np.uint8)
    packed_gaps[np.cumsum(escapes + 1) - 1] = gaps % ESCAPE
    # -1 wraps around to the largest value of the type, which no position has.
    position = narrowest(len(read.boxes) + len(read.label_terms) - 1)
    label = narrowest(int(read.label_terms.max(initial=0)))
    header = HEADER.pack(
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
        np.rint(read.boxes * BOX_STEPS).astype("<u2"),
        read.label_terms.astype(label),
        read.label_regions.astype(position),
    )
    return header + b"".join(part.tobytes() for part in parts)


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
    gaps = np.frombuffer(data, np.uint8, at.positions - at.gaps, at.gaps)
    # The running sum of the bytes is the term wherever a byte ends a gap.
    terms = gaps.cumsum(dtype=np.int64)[gaps != ESCAPE]
    inputs = Inputs(relative(corners), label_terms.astype(np.int32), label_regions.astype(np.int16))
    return Grounding(terms, positions, inputs)


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
        """The layout of one packed image in some data.

        Raises:
            ValueError: if the image is damaged.
            struct.error: if it is shorter than any.
        """
        position_size, label_size, count, gap_bytes, boxes, labels = HEADER.unpack_from(data, start)
        positions = start + HEADER.size + gap_bytes
        corners = positions + count * position_size
        label_terms = corners + 4 * _UNSIGNED[2].itemsize * boxes
        label_regions = label_terms + labels * label_size
        sizes_exist = position_size in _UNSIGNED and label_size in _UNSIGNED
        if not sizes_exist or end != label_regions + labels * position_size:
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


def _none(position: np.dtype[Any]) -> int:
    """The position of a term that nothing won: the largest value of the type."""
    return (1 << 8 * position.itemsize) - 1


def narrowest(largest: int) -> np.dtype:
    """The narrowest unsigned type with one value to spare above the largest."""
    return next(kind for kind in _UNSIGNED.values() if largest < _none(kind))
