"""What all vision networks have in common: photos in, regions and class names out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import FeatureSource


class Encoder(Protocol):
    """Turns photos, resized to a square, into regions."""

    source: FeatureSource
    grid: tuple[int, int]
    resample: int
    batch_size: int

    def encode(self, pixels: NDArray[np.uint8]) -> tuple[NDArray[np.float16], list[str]]:
        """[B, side, side, 3] photos to features [B, rows * columns + 1, d] and B whole labels."""
        ...


def best_classes(logits: NDArray[np.float32], classes: Sequence[str], count: int) -> list[str]:
    """The best classes of each photo, joined by commas; "background" is left out.

    Args:
        logits: [B, C] float32.
        classes: C names.
        count: of classes for each photo, fewer where there are fewer.
    """
    real = [i for i, name in enumerate(classes) if name != "background"]
    order = np.argsort(-logits[:, real], axis=1, kind="stable")[:, :count]
    return [", ".join(classes[real[i]] for i in row) for row in order]
