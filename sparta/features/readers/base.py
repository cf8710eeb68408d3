"""What a reader of foreign features is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.features.record import FeatureSource, ImageFeatures


class FeatureReader(Protocol):
    """Images of foreign files, by row in order of their ids, each read when it is asked for.

    Opening the files raises InputError if one of them is missing or is not what it should be.
    What is wrong with a single image (its line is cut, it has features but no labels, it was
    there before) is raised when that row is asked for, so that the others can be had without it.
    An id that the files give to several images is as often in `ids`, and all its rows but one
    raise.

    Attributes:
        source: what made the features, as far as the files say.
        ids: of the images, in order; equal ones are neighbours.
        files: what is read.
    """

    source: FeatureSource
    ids: Sequence[str]
    files: Sequence[Path]

    def __getitem__(self, row: int) -> ImageFeatures: ...


def named_source(name: str, dimension: int) -> FeatureSource:
    """Source of a detector's features whose files do not say which weights made them.

    Its name stands for the weights: features are equal if they are called the same.
    """
    return FeatureSource("region", name, name, dimension, image_size=0)


def without_boxes(image_id: str, features: NDArray[np.float16]) -> ImageFeatures:
    """An image whose files tell neither boxes nor labels nor size: each region is all of it.

    Args:
        image_id: of it.
        features: [n, d] float16.

    Returns:
        it, with 0 for width and height.
    """
    n = len(features)
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (n, 1))
    return ImageFeatures(image_id, features, boxes, ("",) * n, ("",) * n, width=0, height=0)
