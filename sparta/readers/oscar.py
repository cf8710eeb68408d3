"""Region features of Oscar and VinVL, whatever files they are in; and the TSVs of VinVL."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.readers.base import (
    TOLERANCE,
    FeatureReader,
    ImportOptions,
    check_features,
    check_locations,
    without_labels,
)
from sparta.readers.keyed_files import Cells, KeyedFile, Pairs, TsvFile
from sparta.readers.labels import (
    ATTRIBUTE_CONFIDENCE,
    OBJECTS,
    LabelledObjects,
    Prediction,
    WordPlacer,
    parse,
)

LOCATION = 6  # numbers at the end of each row
SAMPLE = 9  # entries whose widths are compared
FEATURES = "features.tsv"
PREDICTIONS = "predictions.tsv"
COLUMNS = ("image key", "number of regions", "features")
PREDICTION = TypeAdapter(Prediction)


class OscarPart(ABC):
    """A file of features and what belongs to it.

    Args:
        features: with one entry for each image.
        labels: with one entry for each image; None where there are none.
        files: those read.
    """

    def __init__(
        self, features: KeyedFile, labels: KeyedFile | None, files: Sequence[Path]
    ) -> None:
        self.features, self.labels, self.files = features, labels, files

    def width(self, entry: int) -> int:
        """Numbers per row of features, from one entry; InputError if it is malformed."""
        return row_width(*self._payload(entry))

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        """[n, width], a location at each row's end; InputError if the entry is malformed."""
        return as_rows(*self._payload(entry), width)

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        """Number of regions, the bytes of their rows, and their place in the file."""
        raise NotImplementedError

    @abstractmethod
    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        """The objects of an image, from an entry of the labels; and their place in the file."""


# The parts of paths, with the confidence above which attributes are used.
OpenParts: TypeAlias = Callable[[Sequence[Path], float], Sequence[OscarPart]]


class OscarReader(FeatureReader):
    """Images of one or more parts.

    Each row of features ends with its location, six numbers: x1/W, y1/H, x2/W, y2/H, w/W, h/H.
    """

    def __init__(
        self, open_parts: OpenParts, paths: Sequence[Path], options: ImportOptions
    ) -> None:
        above = options.limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        self._parts = parts = open_parts(paths, above)
        features, labels = [part.features for part in parts], [part.labels for part in parts]
        self._pairs = Pairs(features, labels, options.image_suffix)
        self._width = self._common_width()
        self._words = WordPlacer(options.limit)
        files = [path for part in parts for path in part.files]
        super().__init__(options, self._width - LOCATION, self._pairs.ids, files)

    def __getitem__(self, row: int) -> ImageFeatures:
        pair = self._pairs[row]
        part = self._parts[pair.part]
        where = part.features.where(pair.features)
        values = part.values(pair.features, self._width)
        # First: without locations, float32 may have been taken for float16.
        boxes = check_locations(values[:, -LOCATION:], where)
        features = check_features(values[:, :-LOCATION], where)
        seen, seen_where = part.seen(part.features.keys[pair.features], pair.labels)
        image = without_labels(pair.image_id, features, boxes, seen.width, seen.height)
        return self._words.place(image, seen, seen_where)

    def _common_width(self) -> int:
        """Numbers per row that most of the first entries agree on."""
        widths: Counter[int] = Counter()
        first: InputError | None = None
        entries = ((part, row) for part in self._parts for row in range(len(part.features)))
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


def row_width(count: int, payload: bytes, where: str) -> int:
    """Numbers per row, as far as one payload of unknown float type determines them.

    Published rows have 2,054 numbers, in 4 or 2 bytes each. Other detectors have other widths; the
    type is then seen from the locations: float32 read as float16 has numbers above 1 among them.

    Args:
        count: of rows.
        payload: little-endian float32 or float16, row by row, a location at each row's end.
        where: file, line and field, for messages.
    """
    width, rest = divmod(len(payload), 2 * count)
    if not rest and width % 2 == 0:
        ends = np.frombuffer(payload, "<f2").reshape(count, width)[:, -LOCATION:]
        width //= 2 if (ends > 1 + TOLERANCE).any() else 1
    if rest or width <= LOCATION:
        raise InputError(
            f"{where}: {len(payload)} bytes are not {count} rows of more than {LOCATION} floats"
        )
    return width


def as_rows(count: int, payload: bytes, where: str, width: int) -> NDArray[np.floating[Any]]:
    """All numbers of a payload as `row_width` takes it: [count, width] float32 or float16."""
    types = {4 * count * width: "<f4", 2 * count * width: "<f2"}
    if len(payload) not in types:
        raise InputError(
            f"{where}: expected {count} rows of {width} numbers, "
            f"{' or '.join(map(str, types))} bytes, found {len(payload)}"
        )
    return np.frombuffer(payload, types[len(payload)]).reshape(count, width)


# ---- VinVL and Oscar+ ----------------------------------------------------------------------------


def fits_vinvl(path: Path) -> bool:
    """Whether a path looks like a folder of `features.tsv` and `predictions.tsv`."""
    return (path / FEATURES).is_file() and (path / PREDICTIONS).is_file()


def open_vinvl(folders: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The parts of some folders."""
    return [_VinvlFolder(folder, above) for folder in folders]


class _VinvlFolder(OscarPart):
    """`features.tsv` and `predictions.tsv`.

    The former has key, number of regions n, and base64 of n rows of little-endian floats, the last
    six of each its location; the latter key and JSON of `image_h`, `image_w` and the regions'
    `objects`, or of the objects alone: the photo's size is then unknown. The
    indexes of lines beside them, `.lineidx` and `imageid2idx.json`, are not needed.
    """

    def __init__(self, folder: Path, above: float) -> None:
        self._above = above
        self._features, self._labels = TsvFile(folder / FEATURES), TsvFile(folder / PREDICTIONS)
        files = [self._features.path, self._labels.path]
        super().__init__(self._features, self._labels, files)

    def seen(self, _key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        assert entry is not None
        where = self._labels.where(entry)
        _, text = self._labels.cells(entry, ("image key", "JSON"))
        if text.startswith(b"["):
            # Oscar takes such photos for 800 x 600; what it needs of that, the locations, is here.
            objects = parse(OBJECTS, text, where)
            return LabelledObjects.of(objects, 0, 0, where, self._above), where
        found = parse(PREDICTION, text, where)
        size = found.image_w, found.image_h
        return LabelledObjects.of(found.objects, *size, where, self._above), where

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        cells = Cells(self._features, entry, COLUMNS)
        where = f"{cells.where}: features"
        return cells.number(COLUMNS[1]), cells.payload(COLUMNS[2]), where
