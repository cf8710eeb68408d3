"""What the TSVs of bottom-up attention have in common, whatever their columns."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.paired_files import Pairs
from sparta.features.readers.parsing.tsv.cells import Cells
from sparta.features.readers.parsing.tsv.lines import TsvFile
from sparta.features.readers.parsing.validation import check_features, relative_boxes
from sparta.features.record import ImageFeatures

COUNT, BOXES, FEATURES = "num_boxes", "boxes", "features"
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


class HalfPrecisionError(InputError):
    """Features in float16, where the format has float32: as these they would be half as many."""


class RegionLines:
    """Lines of one or more TSVs, by row in order of their image ids.

    A line has the size of the photo, the number of regions n, base64 of [n, 4] float32 (boxes in
    pixels) and base64 of [n, d] float32 (features), wherever the columns have them.

    Args:
        paths: of the files.
        columns: of each.
        image_suffix: put behind each key to make the image id.

    Attributes:
        ids: of the images, in order; equal ones are neighbours.
        files: those read.
        dimension: d, as the first line has it that can be read.

    Raises:
        InputError: naming file and line, if a file is missing, no line can be read, or features
            are in float16.
    """

    def __init__(self, paths: Sequence[Path], columns: TsvColumns, image_suffix: str) -> None:
        self.files: list[Path] = list(paths)
        self._columns = columns
        self._tsvs = [TsvFile(path) for path in paths]
        self._rows = Pairs(self._tsvs, [None] * len(self._tsvs), image_suffix)
        self.ids = self._rows.ids
        self.dimension = self._first_dimension()

    def cells(self, row: int) -> Cells:
        """The cells of a row.

        Raises:
            InputError: if there are more or fewer than columns, or the image is a duplicate.
        """
        found = self._rows[row]
        return Cells(self._tsvs[found.part], found.features, self._columns.names)

    def image(self, row: int, cells: Cells) -> ImageFeatures:
        """All regions of a row with these cells, without words.

        Raises:
            InputError: if it is malformed, naming file, line and field.
        """
        return self._image(self.ids[row], cells, self.dimension)

    def _image(self, image_id: str, cells: Cells, dimension: int | None) -> ImageFeatures:
        width, height = cells.number(self._columns.width), cells.number(self._columns.height)
        count = cells.number(COUNT)
        boxes = cells.rows(BOXES, "<f4", count, 4)
        features = cells.rows(FEATURES, "<f4", count, dimension)
        if dimension is None and looks_half(features.tobytes()):
            raise HalfPrecisionError(
                f"{cells.where}: {FEATURES}: expected float32 (4 bytes a number), found what looks "
                "like float16; write the file again with numpy.float32"
            )
        return ImageFeatures(
            image_id,
            check_features(features, cells.where),
            relative_boxes(boxes, width, height, f"{cells.where}: {BOXES}"),
            ("",) * count,
            ("",) * count,
            width,
            height,
        )

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
