"""Pruning of dense rows of small integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from indexer.pruning import largest


def keep_top(
    impacts: NDArray[np.unsignedinteger], top_n: int | None
) -> NDArray[np.unsignedinteger]:
    """Each row's n largest impacts, 0 elsewhere; of equals those of lower term ids.

    Args:
        impacts: [images, terms].
        top_n: n; None keeps all.
    """
    if top_n is None or top_n >= impacts.shape[1]:
        return impacts
    return impacts * largest(impacts.astype(np.float32), top_n)
