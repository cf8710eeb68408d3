"""The search for a piece of text, compiled by numba where the package was built without C."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.filters.pieces import FOUND, LETTER, SIGN, UNDECIDED


@njit(cache=True, nogil=True)
def find_piece(
    texts: NDArray[np.uint8],
    starts: NDArray[np.int32],
    piece: NDArray[np.uint8],
    classes: NDArray[np.uint8],
    found: NDArray[np.uint8],
) -> None:
    """Look for a piece in many words, by Horspool's search.

    The byte at the end of a window says how far the next one may be.

    Args:
        texts: the words in UTF-8, one behind another.
        starts: [W + 1] where each begins, and the last one ends.
        piece: in UTF-8, at least a byte.
        classes: [256] of each byte.
        found: [W] uint8, `NOT_FOUND` each; changed to what is found.
    """
    size = len(piece)
    steps = np.full(256, size, np.int64)
    for place in range(size - 1):
        steps[piece[place]] = size - 1 - place
    last = piece[size - 1]
    for word in range(len(found)):
        begin, end = starts[word], starts[word + 1]
        place = begin
        while place + size <= end:
            byte = texts[place + size - 1]
            same = 0
            while byte == last and same < size and texts[place + same] == piece[same]:
                same += 1
            if same == size:
                before = classes[texts[place - 1]] if place > begin else SIGN
                behind = classes[texts[place + size]] if place + size < end else SIGN
                if before == SIGN and behind == SIGN:
                    found[word] = FOUND
                    break
                if before != LETTER and behind != LETTER:
                    found[word] = UNDECIDED
            place += steps[byte]
