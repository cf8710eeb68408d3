"""Regions and words left out at random in training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import ImageFeatures


def drop_regions(image: ImageFeatures, chance: float, rng: np.random.Generator) -> ImageFeatures:
    """Leave out each region with the given chance; at least one stays."""
    if not chance:
        return image
    return select_regions(image, _keep(len(image.features), chance, rng))


def select_regions(image: ImageFeatures, rows: NDArray[np.int64]) -> ImageFeatures:
    """The image with these of its regions alone."""
    return replace(
        image,
        features=image.features[rows],
        boxes=image.boxes[rows],
        labels=tuple(np.array(image.labels, object)[rows]),
        attributes=tuple(np.array(image.attributes, object)[rows]),
    )


def drop_words(ids: list[int], chance: float, rng: np.random.Generator) -> list[int]:
    """Leave out each term with the given chance; at least one stays."""
    return [ids[i] for i in _keep(len(ids), chance, rng)] if chance and ids else ids


def _keep(n: int, chance: float, rng: np.random.Generator) -> NDArray[np.int64]:
    kept = np.flatnonzero(rng.random(n) >= chance)
    return kept if len(kept) else rng.integers(n, size=1)
