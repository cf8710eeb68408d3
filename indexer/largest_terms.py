"""The largest term scores of images, found in one pass over all scores, compiled by numba.

`indexer.pruning.prune` is the same in NumPy, which it is tested against.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from indexer.pruning import Floats, KeptTerms, refuse_damaged

# Positive floats are ordered as their bits are as integers. The upper 12 of these divide them into
# parts: sixteen for each power of two.
_SHIFT = 19
_PARTS = 2 ** (31 - _SHIFT)
_LARGEST = np.finfo(np.float32).max
_ALIKE = np.empty(0, np.float32)  # weights of terms that have none

compiled = njit(cache=True, nogil=True)


def largest_terms(
    scores: Floats,
    positions: NDArray[np.int16],
    offset: Floats,
    wanted: NDArray[np.int64],
    top_n: int | None,
    weights: Floats | None = None,
) -> KeptTerms:
    """Subtract the offset and keep each image's n largest scores, as `prune` does.

    Args:
        scores: [B, V] float32 term scores.
        positions: [B, V] int16.
        offset: [V] float32.
        wanted: ascending ids of the terms that may be kept.
        top_n: terms an image keeps at most; None keeps all.
        weights: [V] float32, positive; None for one.

    Raises:
        InputError: if a score is not a number.
    """
    most = len(wanted) if top_n is None else min(top_n, len(wanted))
    room = len(scores) * most + 1  # beyond the last is written what is not kept
    kept = KeptTerms(
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.float32),
        np.empty(room, np.int16),
    )
    weighed = _ALIKE if weights is None else weights[wanted]
    count = _keep(scores, positions, offset[wanted], wanted, weighed, most, kept)
    refuse_damaged(count < 0)
    return KeptTerms(
        kept.row[:count], kept.terms[:count], kept.scores[:count], kept.positions[:count]
    )


@compiled
def _keep(
    scores: Floats,
    positions: NDArray[np.int16],
    offset: Floats,
    wanted: NDArray[np.int64],
    weights: Floats,
    most: int,
    kept: KeptTerms,
) -> int:
    """Write the terms that are kept; their number, -1 if a score is not finite.

    What a processor would have to guess is computed instead: everything is written, and the place
    moves on only after what counts.
    """
    terms = np.empty(len(wanted), np.int64)
    values = np.empty(len(wanted), np.float32)
    keys = np.empty(len(wanted), np.float32) if len(weights) else values
    done = finite = 0
    for image in range(len(scores)):
        count = 0
        for place in range(len(wanted)):
            score = scores[image, wanted[place]]
            finite += np.abs(score) <= _LARGEST
            above = score - offset[place]
            terms[count], values[count] = wanted[place], above
            if len(weights):
                keys[count] = above * weights[place]
            count += above > 0
        least, equals = np.float32(0), 0
        if count > most:
            least, equals = _smallest(keys[:count], most)
        for i in range(count):
            level = (keys[i] == least) & (equals > 0)
            equals -= level
            kept.row[done], kept.terms[done], kept.scores[done] = image, terms[i], values[i]
            kept.positions[done] = positions[image, terms[i]]
            done += (keys[i] > least) | level
    return done if finite == len(scores) * len(wanted) else -1


@compiled
def _smallest(keys: Floats, most: int) -> tuple[np.float32, int]:
    """The smallest of the `most` largest keys, all positive, and how many of its equals they have.

    Of the parts that keys fall into only the one with the smallest is sorted.
    """
    bits = keys.view(np.int32)
    sizes = np.zeros(_PARTS, np.int64)
    highest = 0
    for i in range(len(bits)):
        part = bits[i] >> _SHIFT
        sizes[part] += 1
        highest = max(highest, part)
    left, part = most, highest
    while sizes[part] < left:
        left -= sizes[part]
        part -= 1
    inside = np.empty(sizes[part] + 1, np.float32)
    count = 0
    for i in range(len(bits)):
        inside[count] = keys[i]
        count += (bits[i] >> _SHIFT) == part
    inside = np.sort(inside[:count])
    least, equals = inside[count - left], 0
    for i in range(count - left, count):
        equals += inside[i] == least
    return least, equals
