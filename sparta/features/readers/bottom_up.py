"""Region features in the TSVs of bottom-up attention (Anderson et al., CVPR 2018) and of LXMERT."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.base import (
    FeatureReader,
    ImportOptions,
    check_features,
    relative_boxes,
    without_labels,
)
from sparta.features.readers.keyed_files import Cells, Pairs, TsvFile
from sparta.features.readers.labels import Classes, Classifier
from sparta.features.record import ImageFeatures

COUNT, BOXES, FEATURES = "num_boxes", "boxes", "features"
CLASSES = {"objects_id": "<i8", "objects_conf": "<f4", "attrs_id": "<i8", "attrs_conf": "<f4"}
FIRST_LINE = 1 << 26  # bytes of it at most; a hundred regions take about a million
ENOUGH = 512  # numbers, below which chance decides


@dataclass(frozen=True)
class TsvColumns:
    """The columns of a TSV.

    Attributes:
        names: of all, in order; the first is the image's key.
        width: the one with the photo's width.
        height: the one with its height.
    """

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

    Raises:
        InputError: naming file and line, if a file is missing, no line can be read, features are
            in float16, or regions are to be chosen by confidences that the columns lack.
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
        found = self._rows[row]
        cells = Cells(self._tsvs[found.part], found.features, self._columns.names)
        image = self._image(found.image_id, cells, self._dimension)
        classes = None
        if "objects_conf" in self._columns.names:
            count = len(image.features)
            values = {name: cells.rows(name, kind, count, 1) for name, kind in CLASSES.items()}
            classes = Classes(cells.where, **{name: one[:, 0] for name, one in values.items()})
        return self._classifier.label(image, classes, cells.where)

    def _image(self, image_id: str, cells: Cells, dimension: int | None) -> ImageFeatures:
        """All regions of a line, without words."""
        width, height = cells.number(self._columns.width), cells.number(self._columns.height)
        count = cells.number(COUNT)
        boxes = cells.rows(BOXES, "<f4", count, 4)
        features = cells.rows(FEATURES, "<f4", count, dimension)
        if dimension is None and looks_half(features.tobytes()):
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


def looks_half(payload: bytes) -> bool:
    """Whether little-endian floats that are to be float32 are float16 instead.

    Among a float32's lower halves, read as float16, some are infinite or no numbers, unless the
    numbers were rounded; and a float16 read as half of a float32 has eight times its exponent. So
    the numbers are of the type in which all are finite and their exponents differ less.

    Args:
        payload: an even number of float16, or float32.
    """
    halves, singles = np.frombuffer(payload, "<f2"), np.frombuffer(payload, "<f4")
    # The lower halves of numbers rounded to bfloat16, and of small integers, are 0.
    if len(halves) < ENOUGH or not np.isfinite(halves).all() or not halves[::2].any():
        return False
    return 2 * _exponents_deviation(halves) < _exponents_deviation(singles)


def _exponents_deviation(values: NDArray[np.floating[Any]]) -> float:
    """Standard deviation of the exponents of those that are neither 0 nor infinite."""
    _, exponents = np.frexp(values[np.isfinite(values) & (values != 0)])
    return float(exponents.std()) if len(exponents) else 0.0
