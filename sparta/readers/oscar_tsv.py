"""Region features in TSVs with JSON cells: Oscar's captioning data, and scene_graph_benchmark's."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, TypeAdapter

from sparta.errors import InputError
from sparta.files import read_yaml
from sparta.readers.base import Strict, parse, unreadable
from sparta.readers.keyed_files import TsvFile, decode
from sparta.readers.labels import (
    OBJECTS,
    DetectedObject,
    LabelledObjects,
    Pixels,
    Rect,
)
from sparta.readers.oscar import LOCATION, PREDICTIONS, OscarPart

SIZES = "hw.tsv"  # the end of the name
DETECTOR_WIDTH = 2048  # numbers of a feature as published; tells half precision from single
FIRST_BYTES = 1 << 16  # that contain the first object
log = logging.getLogger(__name__)


class _Size(BaseModel):
    width: Pixels
    height: Pixels


class _Regions(Strict):
    num_boxes: int = Field(gt=0, lt=2**31)
    features: str


class _Object(DetectedObject):
    rect: Rect
    feature: str


class _Line(Strict):
    objects: list[_Object]


SIZE = TypeAdapter(_Size)
SIZE_LIST = TypeAdapter(Annotated[list[_Size], Field(min_length=1)])
SIZE_NUMBERS = TypeAdapter(tuple[Pixels, Pixels])
REGIONS = TypeAdapter(_Regions)
LINE = TypeAdapter(_Line)


class SizeTable:
    """Sizes of photos by key, of a `.hw.tsv`.

    A line holds a key and JSON, `[{"width": w, "height": h}]` or the object alone, or else the
    height and the width separated by a blank.
    """

    def __init__(self, path: Path) -> None:
        self._file = TsvFile(path)

    def __contains__(self, key: str) -> bool:
        return key in self._file.first

    def size(self, key: str) -> tuple[int, int]:
        """Width and height in pixels."""
        line = self._file.first.get(key)
        if line is None:
            raise InputError(f"{self._file.path}: size: missing for image {key!r}")
        where = self._file.where(line)
        _, text = self._file.cells(line, ("image key", "size"))
        if text.startswith(b"{"):
            found = parse(SIZE, text, where)
        elif text.startswith(b"["):
            found = parse(SIZE_LIST, text, where)[0]
        else:
            height, width = parse(SIZE_NUMBERS, b"[" + b",".join(text.split()) + b"]", where)
            return width, height
        return found.width, found.height


# ---- Oscar's captioning data: a YAML file that names TSVs ----------------------------------------


def fits_captioning(path: Path) -> bool:
    """Whether a path looks like such a YAML file, or a folder of them."""
    return bool(_naming_features(path))


def open_captioning(paths: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The data sets of YAML files, or of folders with them."""
    files: list[Path] = []
    for path in paths:
        found = _naming_features(path) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path} holds no YAML file that names features")
        files += found
    return [_DataSet(file, above) for file in files]


class _DataSet(OscarPart):
    """A YAML file and the TSVs that it names in its folder.

    They are `feature` (key, JSON of `num_boxes` and `features`, base64 of the rows as
    little-endian floats, the last six of each its location), `label` (key, JSON list of objects)
    and `hw` (key, size of the photo). Without `hw` sizes are unknown, and labels that are not as
    many as regions cannot be matched by their boxes.
    """

    def __init__(self, path: Path, above: float) -> None:
        self._above = above
        names = _read_yaml(path)
        if "feature" not in names:
            raise InputError(f"{path}: feature: it is missing; expected the name of a TSV")
        named = {
            part: path.parent / names[part] for part in ("feature", "label", "hw") if part in names
        }
        self._features = TsvFile(named["feature"])
        self._labels = TsvFile(named["label"]) if "label" in named else None
        self._sizes = SizeTable(named["hw"]) if "hw" in named else None
        super().__init__(self._features, self._labels, [path, *named.values()])
        if self._labels is None:
            log.warning("%s names no labels: its regions have none", path)

    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        width, height = self._sizes.size(key) if self._sizes else (0, 0)
        if self._labels is None or entry is None:
            where = self._features.where(self._features.first[key])
            return LabelledObjects(width=width, height=height), where
        where = self._labels.where(entry)
        _, text = self._labels.cells(entry, ("image key", "objects"))
        objects = parse(OBJECTS, text, where)
        return LabelledObjects.of(objects, width, height, where, self._above), where

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        where = self._features.where(entry)
        _, text = self._features.cells(entry, ("image key", "JSON"))
        found = parse(REGIONS, text, where)
        field = f"{where}: features"
        return found.num_boxes, decode(found.features, field), field


def _naming_features(path: Path) -> list[Path]:
    """The YAML files of a folder, or the one at a path, that name features."""
    found = []
    for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
        with suppress(InputError):
            if file.suffix == ".yaml" and "feature" in _read_yaml(file):
                found.append(file)
    return found


def _read_yaml(path: Path) -> dict[str, str]:
    try:
        found = read_yaml(path)
    except OSError as error:
        raise unreadable(path, error) from error
    return {key: name for key, name in found.items() if isinstance(name, str) and name}


# ---- the predictions of scene_graph_benchmark, VinVL's detector ----------------------------------


def fits_scene_graph(path: Path) -> bool:
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


def open_scene_graph(paths: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The parts of files of predictions, or folders with `predictions.tsv`, and `.hw.tsv` files.

    A `.hw.tsv` in the folder of the predictions need not be named.
    """
    named = [path for path in paths if path.name.endswith(SIZES)]
    files = [path / PREDICTIONS if path.is_dir() else path for path in paths if path not in named]
    if not files:
        raise InputError(f"{named[0]} holds sizes only; name the {PREDICTIONS} too")
    return [_Predictions(file, named or [_sizes_beside(file)], above) for file in files]


class _Predictions(OscarPart):
    """A key a line, and JSON of `objects`, each with `class`, `conf`, `rect`, … and `feature`.

    `rect` is in pixels, `feature` base64 of little-endian floats. The file records no size of a
    photo, by which rects become locations: a `.hw.tsv` does. Labels are in the file of features.
    """

    def __init__(self, path: Path, sizes: Sequence[Path], above: float) -> None:
        self._above = above
        self._features = TsvFile(path)
        super().__init__(self._features, None, [path, *sizes])
        self._sizes = [SizeTable(file) for file in sizes]
        self._objects = lru_cache(maxsize=1)(self._read)

    def width(self, entry: int) -> int:
        return len(self._vectors(entry)[0]) + LOCATION

    def values(self, entry: int, width: int) -> NDArray[np.floating]:
        vectors = self._vectors(entry)
        for number, vector in enumerate(vectors):
            if len(vector) != width - LOCATION:
                raise InputError(
                    f"{self._features.where(entry)}: objects.{number}.feature: expected "
                    f"{width - LOCATION} numbers, found {len(vector)}"
                )
        boxes = self.seen(self._features.keys[entry], None)[0].boxes
        assert boxes is not None  # size and rects are known
        sides = boxes[:, 2:] - boxes[:, :2]
        return np.concatenate([np.stack(vectors), boxes, sides], axis=1)

    def seen(self, key: str, _entry: int | None) -> tuple[LabelledObjects, str]:
        entry = self._features.first[key]
        where = self._features.where(entry)
        objects, size = self._objects(entry), self._size(key)
        return LabelledObjects.of(objects, *size, where, self._above), where

    def _size(self, key: str) -> tuple[int, int]:
        table = next((table for table in self._sizes if key in table), self._sizes[0])
        return table.size(key)

    def _vectors(self, entry: int) -> list[NDArray[np.floating]]:
        where = self._features.where(entry)
        return [
            _vector(found.feature, f"{where}: objects.{number}.feature")
            for number, found in enumerate(self._objects(entry))
        ]

    def _read(self, entry: int) -> list[_Object]:
        _, text = self._features.cells(entry, ("image key", "JSON"))
        where = self._features.where(entry)
        objects = parse(LINE, text, where).objects
        if not objects:
            raise InputError(f"{where}: objects: empty")
        return objects


def _vector(text: str, where: str) -> NDArray[np.floating]:
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
