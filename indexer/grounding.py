"""Grounding: which region or label token won each term an image keeps, packed for the index."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Bytes per position and per label term, postings, bytes of term gaps, boxes, label tokens.
_HEADER = struct.Struct("<BBIIHH")
_ESCAPE = 255
_BOX_STEPS = 65535

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


@dataclass(frozen=True)
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

    def winner(self, term: int, vocabulary: Sequence[str]) -> Winner:
        """What won a term.

        Args:
            term: its vocabulary id.
            vocabulary: [V] terms in id order.
        """
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term or self.positions[place] < 0:
            return Winner()
        position, regions = int(self.positions[place]), len(self.inputs.boxes)
        if position < regions:
            return Winner(position, self._box(position))
        token = position - regions
        region = int(self.inputs.label_regions[token])
        spoken = self.inputs.label_terms[self.inputs.label_regions == region]
        words = " ".join(vocabulary[i] for i in spoken).replace(" ##", "")
        label = WinningLabel(vocabulary[self.inputs.label_terms[token]], words)
        return Winner(region, self._box(region), label)

    def _box(self, region: int) -> Box:
        x1, y1, x2, y2 = self.inputs.boxes[region].tolist()
        return x1, y1, x2, y2


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
    position_size, label_size, count, gap_bytes, boxes, labels = _HEADER.unpack_from(data)
    position, label = np.dtype(f"<u{position_size}"), np.dtype(f"<u{label_size}")
    sizes = [_HEADER.size, gap_bytes, count * position_size, 8 * boxes, labels * label_size]
    _, gaps, *parts = np.split(np.frombuffer(data, np.uint8), np.cumsum(sizes))
    # The running sum of the bytes is the term wherever a byte ends a gap.
    terms = np.cumsum(gaps, dtype=np.int64)[gaps != _ESCAPE]
    positions = parts[0].view(position).astype(np.int32)
    positions[positions == np.iinfo(position).max] = -1
    read = Inputs(
        (parts[1].view("<u2").reshape(-1, 4) / _BOX_STEPS).astype(np.float32),
        parts[2].view(label).astype(np.int32),
        parts[3].view(position).astype(np.int16),
    )
    return Grounding(terms, positions, read)


def _narrowest(largest: int) -> np.dtype:
    """The narrowest unsigned type with one value to spare above the largest."""
    return np.dtype(next(kind for kind in ("<u1", "<u2", "<u4") if largest < np.iinfo(kind).max))
