"""How far the images of an index have drifted from those that it was built from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MEANS = "term_means.npy"  # of an index folder: each term's mean impact as built
REBUILD = 0.5  # from which drift on a rebuild is worth it: docs/results/constants.md


def drift(built: NDArray[np.floating], now: NDArray[np.floating]) -> float:
    """The share of the impacts that has moved to other terms.

    Offsets and scale are those of the images that an index was built from. Where the others are
    like these, every term's mean impact stays what it was.

    Args:
        built: [V] mean impact of each term over the images of the build, 0 where one lacks it.
        now: [V] over the images of today.

    Returns:
        the sum of |now - built| over the sum of built: 0 for the same means; 2 where no term of
        then has an impact today, and the sum is the same.
    """
    whole = float(built.sum())
    return float(np.abs(now - built).sum()) / whole if whole else 0.0
