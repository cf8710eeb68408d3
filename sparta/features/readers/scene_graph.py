"""Region features in the predictions of scene_graph_benchmark, VinVL's detector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter

from sparta.errors import InputError
from sparta.features.readers.oscar_base import OscarReader
from sparta.features.readers.parsing.base64_floats import LOCATION, decode
from sparta.features.readers.parsing.detected_objects import (
    ATTRIBUTE_CONFIDENCE,
    DetectedObject,
    LabelledObjects,
    Rect,
    parse,
)
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.tsv.lines import TsvFile
from sparta.features.readers.parsing.tsv.photo_sizes import SizeTable

PREDICTIONS = "predictions.tsv"
SIZES = "hw.tsv"  # the end of the name
DETECTOR_WIDTH = 2048  # numbers of a feature as published; tells half precision from single
FIRST_BYTES = 1 << 16  # that contain the first object


class _Object(DetectedObject):
    rect: Rect
    feature: str


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)
    objects: list[_Object]


LINE = TypeAdapter(_Line)


def fits(path: Path) -> bool:
    """Whether a path looks like such predictions, a folder with them, or sizes of photos."""
    if path.name.endswith(SIZES):
        return path.is_file()
    file = path / PREDICTIONS if path.is_dir() else path
    try:
        with file.open("rb") as opened:
            _, _, text = opened.read(FIRST_BYTES).partition(b"\t")
    except OSError:
        return False
    return text.lstrip().startswith(b"{") and b'"objects"' in text and b'"feature"' in text


class SceneGraphReader(OscarReader):
    """Images of one or more files, by row in order of their ids; one is in memory at a time.

    A line of `predictions.tsv` holds a key and JSON of `objects`, each with `class`, `conf`,
    `rect` in pixels, `attributes` and `feature`, base64 of little-endian floats. The file records
    no size of a photo, by which rects become locations: a `.hw.tsv` does.

    Args:
        paths: of files of predictions or folders with `predictions.tsv`, and of `.hw.tsv` files;
            one in the folder of the predictions need not be named.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.

    Raises:
        InputError: if a file is missing or empty, or sizes are; further as `OscarReader`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        image_suffix: str = "",
        name: str = "vinvl",
        limit: RegionLimit = RegionLimit(),
    ) -> None:
        named = [path for path in paths if path.name.endswith(SIZES)]
        files = [
            path / PREDICTIONS if path.is_dir() else path for path in paths if path not in named
        ]
        if not files:
            raise InputError(f"{named[0]} holds sizes only; name the {PREDICTIONS} too")
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        parts = [_Predictions(file, named or [_sizes_beside(file)], above) for file in files]
        super().__init__(parts, image_suffix, name, limit)


class _Predictions:
    labels = None  # they are in the file of the features

    def __init__(self, path: Path, sizes: Sequence[Path], above: float) -> None:
        self._above = above
        self.features = TsvFile(path)
        self.files = [path, *sizes]
        self._sizes = [SizeTable(file) for file in sizes]
        self._objects = lru_cache(maxsize=1)(self._read)

    def width(self, entry: int) -> int:
        return len(self._vectors(entry)[0]) + LOCATION

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        vectors = self._vectors(entry)
        for number, vector in enumerate(vectors):
            if len(vector) != width - LOCATION:
                raise InputError(
                    f"{self.features.where(entry)}: objects.{number}.feature: expected "
                    f"{width - LOCATION} numbers, found {len(vector)}"
                )
        boxes = self.seen(self.features.keys[entry], None)[0].boxes
        assert boxes is not None  # size and rects are known
        sides = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate([np.stack(vectors), boxes, sides], axis=1)

    def seen(self, key: str, _entry: int | None) -> tuple[LabelledObjects, str]:
        entry = self.features.first[key]
        where = self.features.where(entry)
        objects, size = self._objects(entry), self._size(key)
        return LabelledObjects.of(objects, *size, where, self._above), where

    def _size(self, key: str) -> tuple[int, int]:
        table = next((table for table in self._sizes if key in table), self._sizes[0])
        return table.size(key)

    def _vectors(self, entry: int) -> list[NDArray[np.floating[Any]]]:
        where = self.features.where(entry)
        return [
            _vector(found.feature, f"{where}: objects.{number}.feature")
            for number, found in enumerate(self._objects(entry))
        ]

    def _read(self, entry: int) -> list[_Object]:
        _, text = self.features.cells(entry, ("image key", "JSON"))
        where = self.features.where(entry)
        objects = parse(LINE, text, where).objects
        if not objects:
            raise InputError(f"{where}: objects: empty")
        return objects


def _vector(text: str, where: str) -> NDArray[np.floating[Any]]:
    payload = decode(text, where)
    size = 2 if len(payload) == 2 * DETECTOR_WIDTH else 4
    if not payload or len(payload) % size:
        raise InputError(f"{where}: {len(payload)} bytes are not floats")
    return np.frombuffer(payload, f"<f{size}")


def _sizes_beside(path: Path) -> Path:
    found = sorted(path.parent.glob(f"*{SIZES}"))
    if len(found) == 1:
        return found[0]
    which = f"there are {', '.join(file.name for file in found)}" if found else "there is none"
    raise InputError(
        f"{path}: sizes of the photos: expected one .hw.tsv (key, tab, "
        f'[{{"height": h, "width": w}}]) beside it, {which}; name it with the predictions'
    )
