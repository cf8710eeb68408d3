"""Looks for a piece of text in many words at once.

In C, or compiled by numba, since Arrow takes twice as long and a regular expression a second for a
million.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexer.filters.pieces import FOUND, LETTER, NOT_FOUND, PART, SIGN, UNDECIDED

try:
    from indexer.columns.native import find_piece
except ImportError:
    from indexer.filters.in_numba import find_piece

__all__ = ["FOUND", "NOT_FOUND", "UNDECIDED", "containing"]

_CLASSES = np.array(
    [PART if byte > 127 else LETTER if chr(byte).isalnum() else SIGN for byte in range(256)],
    np.uint8,
)


def containing(words: pa.Array, piece: str) -> NDArray[np.uint8]:
    """[W] whether a piece is in each word with no letter or digit before and behind it.

    Args:
        words: [W] texts without a null.
        piece: letters and digits.

    Returns:
        `NOT_FOUND`, `FOUND`, or `UNDECIDED` where a letter that is not ASCII is beside it.
    """
    _, offsets, data = words.buffers()
    starts = np.frombuffer(offsets, np.int32)[words.offset : words.offset + len(words) + 1]
    texts = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    found = np.zeros(len(words), np.uint8)
    find_piece(texts, starts, np.frombuffer(piece.encode(), np.uint8), _CLASSES, found)
    return found
