"""Random dropout of regions and words in training examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import ImageFeatures


def drop_regions(image: ImageFeatures, chance: float, rng: np.random.Generator) -> ImageFeatures:
    """Drop each region with the given probability; at least one stays."""
    if not chance:
        return image
    return select_regions(image, remaining(len(image.features), chance, rng))


def select_regions(image: ImageFeatures, rows: NDArray[np.int64]) -> ImageFeatures:
    """The image with only these of its regions."""
    return replace(
        image,
        features=image.features[rows],
        boxes=image.boxes[rows],
        labels=tuple(np.array(image.labels, object)[rows]),
        attributes=tuple(np.array(image.attributes, object)[rows]),
    )


def drop_words(ids: list[int], chance: float, rng: np.random.Generator) -> list[int]:
    """Drop each term with the given probability; at least one stays."""
    return [ids[i] for i in remaining(len(ids), chance, rng)] if chance and ids else ids


def remaining(n: int, chance: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of n >= 1 that stay when each is dropped with the given probability: at least one."""
    kept = np.flatnonzero(rng.random(n) >= chance)
    return kept if len(kept) else rng.integers(n, size=1)
