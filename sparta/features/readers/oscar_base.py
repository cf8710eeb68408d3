"""Region features of Oscar and VinVL, whatever files they are in."""

from __future__ import annotations

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
from sparta.features.readers.parsing.label_matching import WordPlacer
from sparta.features.readers.parsing.paired_files import Keyed, Pairs
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.validation import check_features, check_locations
from sparta.features.record import ImageFeatures

SAMPLE = 9  # entries whose widths are compared


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
        features = check_features(values[:, :-LOCATION], where)
        boxes = check_locations(values[:, -LOCATION:], where)
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
