"""Region features in the TSVs of bottom-up attention (Anderson et al., CVPR 2018) and of LXMERT."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.record import ImageFeatures
from sparta.readers.base import (
    FeatureReader,
    ImportOptions,
    check_features,
    relative_boxes,
    without_labels,
)
from sparta.readers.keyed_files import Cells, Pairs, TsvFile
from sparta.readers.labels import Classes, Classifier
from sparta.readers.npy import FLOATS, INTEGERS, Arrays, array_names

COUNT, BOXES, FEATURES = "num_boxes", "boxes", "features"
CLASSES = {"objects_id": "<i8", "objects_conf": "<f4", "attrs_id": "<i8", "attrs_conf": "<f4"}
ENOUGH = 512  # numbers, below which chance decides
FIRST_LINE = 1 << 26  # bytes of it at most; a hundred regions take about a million


@dataclass(frozen=True)
class TsvColumns:
    """The columns of a TSV."""

    names: tuple[str, ...]
    width: str
    height: str

    def fit(self, path: Path) -> bool:
        """Whether a file's first line has as many columns, and numbers where they belong."""
        try:
            with path.open("rb") as file:
                cells = file.readline(FIRST_LINE).removeprefix(BOM_UTF8).split(b"\t")
        except OSError:
            return False
        found = dict(zip(self.names, cells, strict=False))
        return len(cells) == len(self.names) and all(
            found[name].strip().isdigit() for name in (self.width, self.height, COUNT)
        )


BOTTOM_UP = TsvColumns(
    ("image_id", "image_w", "image_h", COUNT, BOXES, FEATURES), "image_w", "image_h"
)
LXMERT = TsvColumns(
    ("img_id", "img_h", "img_w", *CLASSES, COUNT, BOXES, FEATURES), "img_w", "img_h"
)


class HalfPrecisionError(InputError):
    """Features in float16, where the format has float32: as these they would be half as many."""


class BottomUpReader(FeatureReader):
    """Images of one or more TSVs with columns of bottom-up attention or of LXMERT.

    Arrays are in base64: boxes are [n, 4] float32 in pixels, features [n, d] float32; LXMERT's
    classes [n] int64 counted without a background, and their confidences [n] float32. Regions are
    in order of confidence only where the detector's number of them was cut to the least or the
    most allowed.
    """

    def __init__(self, columns: TsvColumns, paths: Sequence[Path], options: ImportOptions) -> None:
        if options.limit.by == "confident" and "objects_conf" not in columns.names:
            raise InputError(
                "--keep confident: TSVs of bottom-up attention hold no confidences; use first"
            )
        self._columns = columns
        self._classifier = Classifier(options)
        self._tsvs = [TsvFile(path) for path in paths]
        self._rows = Pairs(self._tsvs, [None] * len(self._tsvs), options.image_suffix)
        self._dimension = self._first_dimension()
        files = [*paths, *self._classifier.files]
        super().__init__(options, self._dimension, self._rows.ids, files)

    def __getitem__(self, row: int) -> ImageFeatures:
        image_id, part, line, _ = self._rows[row]
        cells = Cells(self._tsvs[part], line, self._columns.names)
        image = self._image(image_id, cells, self._dimension)
        classes = None
        if "objects_conf" in self._columns.names:
            count = len(image.features)
            values = {name: cells.rows(name, kind, count, 1) for name, kind in CLASSES.items()}
            classes = Classes(**{name: one[:, 0] for name, one in values.items()})
        return self._classifier.label(image, classes, cells.where)

    def _image(self, image_id: str, cells: Cells, dimension: int | None) -> ImageFeatures:
        """All regions of a line, without words."""
        width, height = cells.number(self._columns.width), cells.number(self._columns.height)
        count = cells.number(COUNT)
        boxes = cells.rows(BOXES, "<f4", count, 4)
        features = cells.rows(FEATURES, "<f4", count, dimension)
        if dimension is None and _looks_half(features.tobytes()):
            raise HalfPrecisionError(
                f"{cells.where}: {FEATURES}: expected float32 (4 bytes a number), found what looks "
                "like float16; write the file again with numpy.float32"
            )
        rows = check_features(features, cells.where)
        boxes = relative_boxes(boxes, width, height, f"{cells.where}: {BOXES}")
        return without_labels(image_id, rows, boxes, width, height)

    def _first_dimension(self) -> int:
        """Numbers per row of features; a line whose parts disagree does not decide it."""
        first: InputError | None = None
        for tsv in self._tsvs:
            for line in range(len(tsv)):
                try:
                    cells = Cells(tsv, line, self._columns.names)
                    return int(self._image("", cells, None).features.shape[1])
                except HalfPrecisionError:
                    raise
                except InputError as error:
                    first = first or error
        raise first or InputError("no TSV was named")


def _looks_half(payload: bytes) -> bool:
    """Whether little-endian floats that are to be float32 are float16 instead.

    Among a float32's lower halves, read as float16, some are infinite or no numbers, unless the
    numbers were rounded; and a float16 read as half of a float32 has eight times its exponent. So
    the numbers are of the type in which all are finite and their exponents differ less. The payload
    is an even number of float16.
    """
    halves, singles = np.frombuffer(payload, "<f2"), np.frombuffer(payload, "<f4")
    # The lower halves of numbers rounded to bfloat16, and of small integers, are 0.
    if len(halves) < ENOUGH or not np.isfinite(halves).all() or not halves[::2].any():
        return False
    return 2 * _exponents_deviation(halves) < _exponents_deviation(singles)


def _exponents_deviation(values: NDArray[np.floating]) -> float:
    """Standard deviation of the exponents of those that are neither 0 nor infinite."""
    _, exponents = np.frexp(values[np.isfinite(values) & (values != 0)])
    return float(exponents.std()) if len(exponents) else 0.0


# ---- the .npz files of bottom-up-attention.pytorch -----------------------------------------------

# Classes and confidences are in `info`, a pickled object, and unpickling may run code. So `info` is
# never read. Users who trust the files convert them once, which writes the content of `info` as
# further arrays.
CONVERSION = """\
import glob, numpy
for path in glob.glob("FOLDER/*.npz"):
    arrays = dict(numpy.load(path, allow_pickle=True))
    info = arrays.pop("info").item()
    arrays |= {key: info[key] for key in info if key.startswith(("objects_", "attrs_"))}
    numpy.savez_compressed(path, **arrays)
"""
SUFFIX = ".npz"
NPZ_ARRAYS = ("x", "bbox", "num_bbox", "image_w", "image_h")
NPZ_CLASSES = {"objects_id": INTEGERS, "objects_conf": FLOATS}
NPZ_ATTRIBUTES = {"attrs_id": INTEGERS, "attrs_conf": FLOATS}


def fits_npz(path: Path) -> bool:
    """Whether a path looks like a folder of such files."""
    first = next(path.glob(f"*{SUFFIX}"), None)
    return first is not None and set(NPZ_ARRAYS) <= array_names(first)


class BottomUpNpzReader(FeatureReader):
    """Images of one or more folders.

    A file is called as its photo, up to the first dot of that, and holds x [n, d] floats
    (features), bbox [n, 4] floats (in pixels), num_bbox (n), image_w and image_h; after conversion
    objects_id and attrs_id too, [n] integers (classes counted without a background), and
    objects_conf and attrs_conf, [n] floats. Regions are in order of confidence only where the
    detector's number of them was cut to the least or the most allowed.
    """

    def __init__(self, folders: Sequence[Path], options: ImportOptions) -> None:
        self._classifier = Classifier(options)
        paths = [path for folder in folders for path in _files_of(folder)]
        # The sort keeps the order of folders, so that the first of equal ones is from the first.
        named = [
            (_text(path.name.removesuffix(SUFFIX)) + options.image_suffix, path) for path in paths
        ]
        self._rows = sorted(named, key=lambda row: row[0])
        first, self._dimension = _first_readable(paths)
        if self._classifier.needed and "objects_id" not in first:
            raise InputError(
                f"{first.where}: objects_id: missing. Classes and confidences are in info, "
                "and loading that may run code. If you trust the files, convert them once with "
                f"this Python:\n\n{CONVERSION.replace('FOLDER', str(Path(first.where).parent))}"
            )
        ids = [row[0] for row in self._rows]
        super().__init__(options, self._dimension, ids, [*paths, *self._classifier.files])

    def __getitem__(self, row: int) -> ImageFeatures:
        image_id, path = self._rows[row]
        if _text(path.name) != path.name:
            raise InputError(f"{_text(str(path))}: the file name is not UTF-8")
        if row and self.ids[row - 1] == image_id:
            raise InputError(f"{path}: image {image_id!r} was already in {self._rows[row - 1][1]}")
        arrays = _open(path)
        image = _npz_image(image_id, arrays, self._dimension)
        classes = None
        if self._classifier.needed:
            named = NPZ_CLASSES | (NPZ_ATTRIBUTES if "attrs_id" in arrays else {})
            shape = (len(image.features),)
            classes = Classes(
                **{name: arrays.get(name, kind, shape) for name, kind in named.items()}
            )
        return self._classifier.label(image, classes, arrays.where)


def _text(name: str) -> str:
    """A file's name, what is not UTF-8 in it escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _files_of(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"{folder} is no folder with {SUFFIX} files")
    return files


def _open(path: Path) -> Arrays:
    return Arrays(path, (*NPZ_ARRAYS, *NPZ_CLASSES, *NPZ_ATTRIBUTES))


def _first_readable(paths: Sequence[Path]) -> tuple[Arrays, int]:
    """The first file whose arrays agree, and the numbers per row of its features."""
    first: InputError | None = None
    for path in paths:
        try:
            arrays = _open(path)
            return arrays, _npz_image("", arrays, None).features.shape[1]
        except InputError as error:
            first = first or error
    raise first or InputError("no folder was named")


def _npz_image(image_id: str, arrays: Arrays, dimension: int | None) -> ImageFeatures:
    """All regions of a file, without words."""
    width, height = arrays.number("image_w"), arrays.number("image_h")
    count = arrays.number("num_bbox")
    boxes = arrays.get("bbox", FLOATS, (count, 4))
    features = check_features(arrays.get("x", FLOATS, (count, dimension)), arrays.where)
    boxes = relative_boxes(boxes, width, height, f"{arrays.where}: bbox")
    return without_labels(image_id, features, boxes, width, height)
