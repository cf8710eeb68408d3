"""Which region won each kept term of an image, packed into the bytes an index stores beside it."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer.searcher import Box

# Bytes per region number, postings, bytes of term gaps, boxes.
_HEADER = struct.Struct("<BIIH")
_ESCAPE = 255
_BOX_STEPS = 65535


@dataclass(frozen=True)
class Grounding:
    """What `unpack` reads back.

    Attributes:
        terms: [n] int64, rising vocabulary ids.
        regions: [n] int32, the winning region of each term, -1 for none.
        boxes: [r, 4] float32, relative to the photo, true to 1/65535.
    """

    terms: NDArray[np.int64]
    regions: NDArray[np.int32]
    boxes: NDArray[np.float32]

    def region(self, term: int) -> int | None:
        """The region that won a term, None if the image lacks the term or no region won."""
        place = int(np.searchsorted(self.terms, term))
        if place == len(self.terms) or self.terms[place] != term or self.regions[place] < 0:
            return None
        return int(self.regions[place])

    def box(self, region: int | None) -> Box | None:
        """That region's x1, y1, x2, y2, None if it has none."""
        if region is None or region >= len(self.boxes):
            return None
        x1, y1, x2, y2 = self.boxes[region].tolist()
        return x1, y1, x2, y2


def pack(
    terms: NDArray[np.integer], regions: NDArray[np.integer], boxes: NDArray[np.floating]
) -> bytes:
    """Pack one image: about two bytes per term and eight per box.

    Args:
        terms: [n], rising vocabulary ids; kept as the gaps between them, mostly one byte each.
        regions: [n], at least -1 (none).
        boxes: [r, 4], between 0 and 1.
    """
    ids = terms.astype(np.int64)
    gaps = ids - np.concatenate([[0], ids[:-1]])
    escapes = gaps // _ESCAPE
    packed_gaps = np.full(len(gaps) + int(escapes.sum()), _ESCAPE, np.uint8)
    packed_gaps[np.cumsum(escapes + 1) - 1] = gaps % _ESCAPE
    wide = len(regions) > 0 and int(regions.max()) >= 255
    dtype = np.dtype("<u2" if wide else "u1")
    packed_boxes = np.rint(boxes * _BOX_STEPS).astype("<u2")
    header = _HEADER.pack(dtype.itemsize, len(gaps), len(packed_gaps), len(boxes))
    # -1 wraps around to the largest value of the type, which no region has.
    parts = (packed_gaps, regions.astype(dtype), packed_boxes)
    return header + b"".join(part.tobytes() for part in parts)


def unpack(data: bytes) -> Grounding:
    """Read what `pack` made."""
    width, count, gap_bytes, boxes = _HEADER.unpack_from(data)
    gaps = np.frombuffer(data, np.uint8, gap_bytes, _HEADER.size)
    # The running sum of the bytes is the term wherever a byte ends a gap.
    terms = np.cumsum(gaps, dtype=np.int64)[gaps != _ESCAPE]
    dtype = np.dtype("<u2" if width == 2 else "u1")
    at = _HEADER.size + gap_bytes
    regions = np.frombuffer(data, dtype, count, at).astype(np.int32)
    regions[regions == np.iinfo(dtype).max] = -1
    steps = np.frombuffer(data, "<u2", boxes * 4, at + count * width).reshape(-1, 4)
    return Grounding(terms, regions, (steps / _BOX_STEPS).astype(np.float32))
