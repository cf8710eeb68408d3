"""Region features in the files of VinVL and Oscar+: `features.tsv` and `predictions.tsv`."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import StrictInt, TypeAdapter

from sparta.errors import InputError
from sparta.features.readers.oscar_base import OscarReader
from sparta.features.readers.parsing.base64_floats import as_rows, row_width
from sparta.features.readers.parsing.detected_objects import (
    ATTRIBUTE_CONFIDENCE,
    OBJECTS,
    LabelledObjects,
    Prediction,
    parse,
)
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.tsv.cells import Cells
from sparta.features.readers.parsing.tsv.lines import TsvFile

FEATURES = "features.tsv"
PREDICTIONS = "predictions.tsv"
INDEX = "imageid2idx.json"
COLUMNS = ("image key", "number of regions", "features")
PREDICTION = TypeAdapter(Prediction)
LINES = TypeAdapter(dict[str, StrictInt])


def fits(path: Path) -> bool:
    """Whether a path looks like a folder of these files."""
    return (path / FEATURES).is_file() and (path / PREDICTIONS).is_file()


class VinvlReader(OscarReader):
    """Images of one or more folders, by row in order of their ids; one is in memory at a time.

    A folder holds `features.tsv` (key, number of regions n, base64 of n rows of little-endian
    floats, the last six of each its location) and `predictions.tsv` (key, JSON of `image_h`,
    `image_w` and the regions' `objects`, or of the objects alone; the photo's size is then
    unknown). There may also be an index of lines, `imageid2idx.json`.

    Args:
        folders: whose images are put together, such as those of train and val.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.

    Raises:
        InputError: if a file is missing or empty, or an index is of another file; further as
            `OscarReader`.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        image_suffix: str = "",
        name: str = "vinvl",
        limit: RegionLimit = RegionLimit(),
    ) -> None:
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        parts = [_Folder(folder, above) for folder in folders]
        super().__init__(parts, image_suffix, name, limit)


class _Folder:
    def __init__(self, folder: Path, above: float) -> None:
        self._above = above
        self.features = TsvFile(folder / FEATURES)
        self.labels = TsvFile(folder / PREDICTIONS)
        self.files = [self.features.path, self.labels.path]
        _check_index(folder / INDEX, self.features)

    def width(self, entry: int) -> int:
        return row_width(*self._payload(entry))

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        count, payload, where = self._payload(entry)
        return as_rows(count, payload, width, where)

    def seen(self, _key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        assert entry is not None
        where = self.labels.where(entry)
        _, text = self.labels.cells(entry, ("image key", "JSON"))
        if text.startswith(b"["):
            # Oscar takes such photos for 800 x 600; what it needs of that, the locations, is here.
            objects = parse(OBJECTS, text, where)
            return LabelledObjects.of(objects, 0, 0, where, self._above), where
        found = parse(PREDICTION, text, where)
        size = found.image_w, found.image_h
        return LabelledObjects.of(found.objects, *size, where, self._above), where

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        """Number of regions, the bytes of their rows, and their place in the file."""
        cells = Cells(self.features, entry, COLUMNS)
        where = f"{cells.where}: features"
        return cells.number(COLUMNS[1]), cells.payload(COLUMNS[2]), where


def _check_index(path: Path, features: TsvFile) -> None:
    """Refuse an index that is of another file; it is not needed otherwise."""
    if not path.exists():
        return
    lines = parse(LINES, path.read_bytes().removeprefix(BOM_UTF8), str(path))
    for key, line in lines.items():
        if not (0 <= line < len(features)) or features.keys[line] != key:
            raise InputError(
                f"{path} is not the index of {features.path.name}: image {key!r} is not in line "
                f"{line + 1}; delete it, it will be done without"
            )
    if missing := features.first.keys() - lines.keys():
        raise InputError(
            f"{path} is not the index of {features.path.name}: it lacks image {min(missing)!r}; "
            "delete it, it will be done without"
        )
