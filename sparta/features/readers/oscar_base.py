"""Region features of Oscar and VinVL, whatever files they are in."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.base import named_source
from sparta.features.readers.parsing.base64_floats import LOCATION
from sparta.features.readers.parsing.detected_objects import LabelledObjects
from sparta.features.readers.parsing.paired_files import Keyed, Pairs
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.validation import TOLERANCE, check_features, check_locations
from sparta.features.record import ImageFeatures

SAMPLE = 9  # entries whose widths are compared
OVERLAP = 0.5  # intersection over union above which two boxes show the same thing
READ = 50  # regions Oscar and VisualSparta read of an image
UNMATCHED = -1
log = logging.getLogger(__name__)


class OscarPart(Protocol):
    """A file of features and what belongs to it."""

    @property
    def files(self) -> Sequence[Path]:
        """Those read."""
        ...

    @property
    def features(self) -> Keyed:
        """With one entry for each image."""
        ...

    @property
    def labels(self) -> Keyed | None:
        """With one entry for each image; None where there are none."""
        ...

    def width(self, entry: int) -> int:
        """Numbers per row of features, from one entry; InputError if it is malformed."""
        ...

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        """[n, width], a location at each row's end; InputError if the entry is malformed."""
        ...

    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        """The objects of an image, from an entry of the labels; and their place in the file."""
        ...


class OscarReader:
    """Images of one or more parts, by row in order of their ids; one is in memory at a time.

    Each row of features ends with its location, six numbers: x1/W, y1/H, x2/W, y2/H, w/W, h/H.

    Args:
        parts: whose images are put together, such as those of train and val.
        image_suffix: appended to each key to make the image id (".jpg" where captions refer to
            files and keys do not).
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.

    Attributes:
        source: kind "region"; the dimension is without the location.
        ids: of the images, in order; equal ones are neighbours.
        files: those read.

    Raises:
        InputError: if no image has features. Reading an image raises it, naming file, line and
            field, if it was there before, has labels but no features, or features but no labels,
            or it is malformed.
    """

    def __init__(
        self, parts: Sequence[OscarPart], image_suffix: str, name: str, limit: RegionLimit
    ) -> None:
        self._parts = parts
        self.files: Sequence[Path] = [path for part in parts for path in part.files]
        features, labels = [part.features for part in parts], [part.labels for part in parts]
        self._pairs = Pairs(features, labels, image_suffix)
        self.ids: Sequence[str] = self._pairs.ids
        self._width = self._common_width()
        self.source = replace(named_source(name, self._width - LOCATION), extra=limit.extra)
        self._words = WordPlacer(limit)

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if it is malformed, naming file, line and field.
        """
        pair = self._pairs[row]
        part = self._parts[pair.part]
        where = part.features.where(pair.features)
        values = part.values(pair.features, self._width)
        # First: without locations, float32 may have been taken for float16.
        boxes = check_locations(values[:, -LOCATION:], where)
        features = check_features(values[:, :-LOCATION], where)
        seen, seen_where = part.seen(part.features.keys[pair.features], pair.labels)
        blank = ("",) * len(features)
        size = seen.width, seen.height
        image = ImageFeatures(pair.image_id, features, boxes, blank, blank, *size)
        return self._words.place(image, seen, seen_where)

    def _common_width(self) -> int:
        """Numbers per row that most of the first entries agree on."""
        widths: Counter[int] = Counter()
        first: InputError | None = None
        entries = ((part, row) for part in self._parts for row in range(len(part.features.keys)))
        for part, entry in entries:
            try:
                widths[part.width(entry)] += 1
            except InputError as error:
                first = first or error
            if widths.total() == SAMPLE:
                break
        if not widths:
            raise first or InputError("there are no features")
        return widths.most_common(1)[0][0]


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
