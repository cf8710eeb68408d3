"""Images that filters let through: drawn at random, or alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


def masks(
    order: NDArray[np.int32], shares: Sequence[float], seed: int
) -> Iterator[tuple[str, float, NDArray[np.bool_]]]:
    """For each share, images [N] at random, and as many that resemble one another.

    Args:
        order: [N] the images in the order of the columns, where those alike are neighbours.
        shares: of the images.
        seed: of those at random.
    """
    draw = np.random.default_rng(seed)
    images = len(order)
    for share in shares:
        count = max(1, round(share * images))
        # From a third on, so that large shares fit.
        for name, chosen in (
            ("at random", draw.choice(images, count, replace=False)),
            ("alike", order[images // 3 :][:count]),
        ):
            mask = np.zeros(images, np.bool_)
            mask[chosen] = True
            mask.flags.writeable = False  # as those of filters are
            yield name, share, mask
