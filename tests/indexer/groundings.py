"""Random input positions of an image."""

from __future__ import annotations

import numpy as np

from indexer.grounding import Inputs


def random_inputs(regions: int, labels: int, largest: int, seed: int) -> Inputs:
    """Of so many regions and label tokens, with vocabulary ids up to the largest."""
    random = np.random.default_rng(seed)
    return Inputs(
        random.random((regions, 4)).astype(np.float32),
        random.integers(0, largest, labels, endpoint=True, dtype=np.int32),
        np.sort(random.integers(0, max(1, regions), labels, dtype=np.int16)),
    )
