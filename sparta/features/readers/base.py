"""The protocol of readers of features extracted by other software."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import FeatureSource, ImageFeatures


class FeatureReader(Protocol):
    """Images of feature files, by row in order of their ids, each read when it is requested.

    Opening the files raises InputError if one of them is missing or of another format. An error
    of a single image (its line is cut, it has features but no labels, its id is a duplicate) is
    raised when that row is requested, so that the other rows can still be read. An id that
    several images have is in `ids` as often, and all its rows but one raise.

    Attributes:
        source: what made the features, as far as the files record it.
        ids: of the images, in order; equal ones are neighbours.
        files: what is read.
    """

    source: FeatureSource
    ids: Sequence[str]
    files: Sequence[Path]

    def __getitem__(self, row: int) -> ImageFeatures: ...


def named_source(name: str, dimension: int) -> FeatureSource:
    """Source of features whose files do not record which weights made them.

    The name replaces the hash of the weights: features of equal names count as equal.
    """
    return FeatureSource("region", name, name, dimension, image_size=0)


def without_boxes(image_id: str, features: NDArray[np.float16]) -> ImageFeatures:
    """An image without boxes, labels and size: each region covers all of it.

    Args:
        image_id: its id.
        features: [n, d] float16.

    Returns:
        the image, with 0 for width and height.
    """
    n = len(features)
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1))
    return ImageFeatures(image_id, features, boxes, ("",) * n, ("",) * n, width=0, height=0)
