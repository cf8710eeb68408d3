"""Which region each detected object belongs to."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.features.readers.parsing.detected_objects import LabelledObjects
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.validation import TOLERANCE
from sparta.features.record import ImageFeatures

OVERLAP = 0.5  # intersection over union above which two boxes show the same thing
READ = 50  # regions Oscar and VisualSparta read of an image
UNMATCHED = -1

log = logging.getLogger(__name__)


def overlaps(boxes: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float32]:
    """[n, m] intersection over union of [n, 4] and [m, 4] boxes; 0 where both are points."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    shared = (high - low).clip(0).prod(axis=2)
    union = _areas(boxes)[:, None] + _areas(others)[None] - shared
    overlaps: NDArray[np.float32] = np.divide(
        shared, union, out=np.zeros_like(shared), where=union > 0
    )
    return overlaps


def match(regions: NDArray[np.float32], seen: LabelledObjects) -> NDArray[np.int64]:
    """The region of each object.

    Files have one object for each region, in the same order, or come of two detectors (or of two
    thresholds of one). In the latter case an object belongs to the region that its box overlaps
    most, by more than a half.

    Args:
        regions: [n, 4] boxes.
        seen: m objects; without boxes they are those of the regions if there are as many.

    Returns:
        [m] rows of regions, -1 for an object that belongs to none.
    """
    n, m = len(regions), len(seen.labels)
    if seen.boxes is None:
        return np.arange(n) if m == n else np.full(m, UNMATCHED)
    shared = overlaps(seen.boxes, regions)
    if m == n:
        equal = (np.abs(seen.boxes - regions) <= TOLERANCE).all(axis=1)
        if (equal | (shared.diagonal() > OVERLAP)).all():
            return np.arange(n)
    return np.where(shared.max(axis=1) > OVERLAP, shared.argmax(axis=1), UNMATCHED)


class WordPlacer:
    """Gives an image's regions the words of the objects seen in it.

    Labels of an object that belongs to no region describe the photo. They go to the largest
    region, whose box comes nearest to it; regions after the first 50 are left out there, as models
    read no further. The first such image is logged.

    Args:
        limit: of the regions to keep.
    """

    def __init__(self, limit: RegionLimit) -> None:
        self._choice = limit
        self._warned = False

    def place(self, image: ImageFeatures, seen: LabelledObjects, where: str) -> ImageFeatures:
        """The chosen regions with their words.

        Args:
            image: all regions; its labels are ignored.
            seen: the objects.
            where: file and line, for messages.

        Raises:
            InputError: if regions are to be chosen by confidence and the objects have none, or are
                not one for each region.
        """
        owners, n = match(image.boxes, seen), len(image.boxes)
        paired = np.array_equal(owners, np.arange(n))
        rows = self._choice.rows(n, seen.confidences if paired else None, where)
        lost = np.flatnonzero(owners == UNMATCHED)
        if len(lost):
            self._warn(image.image_id, len(lost), len(owners))
            first = rows[:READ]
            owners[lost] = first[_areas(image.boxes[first]).argmax()]
        labels = _joined(seen.labels, owners, n)
        attributes = _joined(seen.attributes, owners, n)
        return replace(image, labels=labels, attributes=attributes).take(rows)

    def _warn(self, image_id: str, lost: int, objects: int) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "%s: %d of %d labels belong to no region; they go to the largest, here and "
                "in any further such image",
                image_id,
                lost,
                objects,
            )


def _areas(boxes: NDArray[Any]) -> NDArray[Any]:
    areas: NDArray[Any] = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return areas


def _joined(words: tuple[str, ...], owners: NDArray[np.int64], n: int) -> tuple[str, ...]:
    """The words of each of n regions, in order of the objects."""
    found: list[list[str]] = [[] for _ in range(n)]
    for word, owner in zip(words, owners.tolist(), strict=True):
        if word:
            found[owner].append(word)
    return tuple(" ".join(row) for row in found)
