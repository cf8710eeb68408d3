"""What all readers of features extracted by other software share: options, limits and checks.

In all of `sparta.readers` whatever is malformed raises InputError, which names the file, the line
or image, and the field.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sparta.errors import InputError
from sparta.features.record import FeatureSource, ImageFeatures
from sparta.json_values import Json

# Published features take about 1 MB an image: 100 regions of 2,048 floats.
LARGEST = 1 << 28
# Files in half precision, and detectors that count pixels inclusively, are off by about this.
TOLERANCE = 0.01
SMALLEST = 2  # sides of photos in which a pixel may be a region

Rule = Literal["first", "confident"]
T = TypeVar("T")


class Strict(BaseModel):
    """A part of a JSON file, whose values have the declared types: none is converted."""

    model_config = ConfigDict(strict=True)


@dataclass(frozen=True)
class RegionLimit:
    """The first regions of each image, or those of highest confidence.

    Oscar takes the first 50 in the file's order. In files of bottom-up attention these have the
    highest confidence only where the detector found too many or too few.

    Attributes:
        limit: regions an image keeps at most; None for all.
        by: "first" keeps the order of the file, "confident" sorts by decreasing confidence.
        attributes: confidence above which a region's attributes are used; None for the format's.
    """

    limit: int | None = None
    by: Rule = "first"
    attributes: float | None = None

    @property
    def extra(self) -> Json:
        """What a feature source records of it: nothing of what is left to the format."""
        regions = {} if self.all_regions else {"regions": self.limit, "keep": self.by}
        return regions if self.attributes is None else regions | {"attributes": self.attributes}

    @property
    def all_regions(self) -> bool:
        """Whether all regions are used, in the order of the file."""
        return self.limit is None and self.by == "first"

    def attributes_above(self, default: float) -> float:
        """The confidence above which attributes are used, for a format with this default."""
        return default if self.attributes is None else self.attributes

    def rows(
        self, count: int, confidences: NDArray[np.number] | None, where: str
    ) -> NDArray[np.int64]:
        """Rows [min(limit, count)] to keep, by confidences [count] where the file has them.

        They rise for "first", and are by falling confidence, equal ones in the file's order, for
        "confident".
        """
        if self.by == "first":
            return np.arange(count, dtype=np.int64)[: self.limit]
        if confidences is None:
            raise InputError(
                f"{where}: confidence: missing, so regions cannot be chosen by it; use --keep first"
            )
        if len(confidences) != count or np.isnan(confidences).any():
            raise InputError(f"{where}: confidence: expected {count} numbers, one for each region")
        return np.argsort(-confidences, kind="stable").astype(np.int64)[: self.limit]


class ImportOptions(NamedTuple):
    """How files are read; see `open_reader`.

    `made_by` replaces the hash of the weights, which files do not record: features of equal names
    count as equal.
    """

    made_by: str
    splits: Sequence[str] = ()
    image_suffix: str = ""
    limit: RegionLimit = RegionLimit()
    vocabulary: Path | None = None


class FeatureReader(ABC):
    """Images of feature files, by row in order of their ids, each read when it is requested.

    Opening the files raises InputError if one of them is missing or of another format. An error
    of a single image (its line is cut, it has features but no labels, its id is a duplicate) is
    raised when that row is requested, so that the other rows can still be read. An id that
    several images have is in `ids` as often, and all its rows but one raise.

    Attributes:
        source: kind "region", and what made the features.
        ids: of the images, in order; equal ones are neighbours.
        files: what is read.
    """

    def __init__(
        self, options: ImportOptions, dimension: int, ids: Sequence[str], files: Sequence[Path]
    ) -> None:
        name, extra = options.made_by, options.limit.extra
        self.source = FeatureSource("region", name, name, dimension, image_size=0, extra=extra)
        self.ids = ids
        self.files = files

    @abstractmethod
    def __getitem__(self, row: int) -> ImageFeatures: ...

    def metadata(self) -> Iterator[Json] | None:
        """What the files say of images beside their features, each with its id as `image`."""
        return None


def without_boxes(image_id: str, features: NDArray[np.float16]) -> ImageFeatures:
    """An image without boxes, labels and size: each region of features [n, d] covers all of it."""
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (len(features), 1))
    return without_labels(image_id, features, boxes, 0, 0)


def without_labels(
    image_id: str,
    features: NDArray[np.float16],
    boxes: NDArray[np.float32],
    width: int,
    height: int,
) -> ImageFeatures:
    """An image of features [n, d] and boxes [n, 4]; a size of 0 is unknown."""
    blank = ("",) * len(features)
    return ImageFeatures(image_id, features, boxes, blank, blank, width, height)


def merge_splits(
    what: str, splits: Sequence[str], rows: Sequence[Mapping[str, T]]
) -> dict[str, tuple[int, T]]:
    """Key → number of the split and row, of the rows by key of several splits.

    Raises:
        InputError: if a key is in two splits; `what` begins the message.
    """
    found: dict[str, tuple[int, T]] = {}
    for part, own in enumerate(rows):
        for key, row in own.items():
            if key in found:
                raise InputError(
                    f"{what} {key!r} is in two splits: {splits[found[key][0]]} and {splits[part]}"
                )
            found[key] = part, row
    return found


# ---- files ---------------------------------------------------------------------------------------


def parse(adapter: TypeAdapter[T], found: Any, where: str, whole: str = "JSON") -> T:
    """Check a cell of JSON as bytes, or lists and dictionaries, against the form it must have."""
    try:
        if isinstance(found, bytes):
            return adapter.validate_json(found)
        return adapter.validate_python(found)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or whole
        raise InputError(f"{where}: {field}: {first['msg']}") from error


def check_size(size: int, where: str) -> None:
    """Refuse a size above 256 MB that a file states, before memory is taken for it."""
    if size > LARGEST:
        raise InputError(
            f"{where}: it claims {size:,} bytes, and at most {LARGEST:,} are read at once; "
            "the file is damaged, or of another format"
        )


def check_read(found: int, wanted: int, where: str, of: str = "") -> None:
    """Check that as many bytes were found as a file had when it was opened."""
    if found < wanted:
        raise InputError(
            f"{where}: the file was cut short while it was read: {wanted - found:,} bytes {of}are "
            "missing"
        )


def file_length(path: Path) -> int:
    """The length of a file in bytes, to be compared by `check_length` later."""
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error


def check_length(path: Path, length: int) -> None:
    """Check that a file is as long as when it was opened.

    Reading behind the end of a file that is mapped into memory ends the process, and HDF5 reads
    zeros there.
    """
    check_read(file_length(path), length, str(path))


def unreadable(path: Path, error: OSError) -> InputError:
    """The error of a file that the operating system does not read."""
    return InputError(f"{path}: cannot be read: {error.strerror or error}")


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 text file, ended by line feeds, with or without a carriage return.

    A byte order mark at the start and empty lines at the end, which editors add, are left out.
    """
    try:
        lines = path.read_bytes().removeprefix(BOM_UTF8).split(b"\n")
    except OSError as error:
        raise unreadable(path, error) from error
    while lines and not lines[-1].strip(b"\r"):
        lines.pop()
    found: list[str] = []
    try:
        for line in lines:
            found.append(line.rstrip(b"\r").decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path}, line {len(found) + 1}: not UTF-8: {error}") from error
    return found


# ---- features and boxes --------------------------------------------------------------------------


def check_features(values: NDArray[np.number], where: str) -> NDArray[np.float16]:
    """Convert features [n, d] of any float type to what a store contains."""
    if not len(values):
        raise InputError(f"{where}: features: no rows")
    with np.errstate(over="ignore"):  # found below
        features = values.astype(np.float16)
    for row in np.flatnonzero(~np.isfinite(features).all(axis=1))[:1]:
        bad = values[row][~np.isfinite(features[row])][0]
        raise InputError(
            f"{where}: features, row {row + 1}: expected finite numbers within "
            f"±{np.finfo(np.float16).max:.0f}, found {bad}"
        )
    for row in np.flatnonzero(~features.any(axis=1))[:1]:
        raise InputError(f"{where}: features, row {row + 1}: all its numbers are 0")
    return features


def check_locations(values: NDArray[np.number], where: str) -> NDArray[np.float32]:
    """The corners [n, 4] within 0 and 1 of locations [n, 6], the ends of rows of features.

    A location is x1/W, y1/H, x2/W, y2/H, width/W, height/H.
    """
    with np.errstate(over="ignore"):  # found below
        locations = values.astype(np.float32)
    order = "x1, y1, x2, y2, width, height relative to the photo"
    outside = ~((locations >= -TOLERANCE) & (locations <= 1 + TOLERANCE)).all(axis=1)
    sides = locations[:, 2:4] - locations[:, :2]
    turned = (sides < 0).any(axis=1)
    unlike = (np.abs(sides - locations[:, 4:]) > TOLERANCE).any(axis=1)
    reasons = {
        "numbers are not between 0 and 1": outside,
        "x1 > x2 or y1 > y2": turned,
        "width and height are not x2 - x1 and y2 - y1": unlike,
    }
    for reason, rows in reasons.items():
        for row in np.flatnonzero(rows)[:1]:
            found = ", ".join(f"{value:.4g}" for value in locations[row])
            raise InputError(
                f"{where}: location, row {row + 1}: expected {order} at its end, found {found}: "
                f"{reason}. If the rows have no locations, append them, or import the files in a "
                "format that has boxes apart"
            )
    return locations[:, :4].clip(0, 1)


def relative_boxes(
    pixels: NDArray[np.number], width: int, height: int, where: str
) -> NDArray[np.float32]:
    """Boxes x1, y1, x2, y2 in pixels [n, 4] as a store contains them, within 0 and 1."""
    relative = (pixels >= -TOLERANCE) & (pixels <= 1 + TOLERANCE)
    # Boxes that are 0 throughout say nothing.
    if min(width, height) > SMALLEST and relative.all() and pixels.any():
        raise InputError(
            f"{where}: expected x1, y1, x2, y2 in pixels, found numbers from 0 to 1 alone: these "
            f"boxes are relative to the photo; multiply them by its {width} x {height}"
        )
    with np.errstate(invalid="ignore"):  # NaN is found below
        boxes = pixels / np.array([width, height, width, height], np.float64)
    reasons = {
        f"it is not within the photo's {width} x {height}": ~(
            (boxes >= -TOLERANCE) & (boxes <= 1 + TOLERANCE)
        ).all(axis=1),
        "x1 > x2 or y1 > y2": (boxes[:, 2:] < boxes[:, :2]).any(axis=1),
    }
    for reason, rows in reasons.items():
        for row in np.flatnonzero(rows)[:1]:
            found = ", ".join(f"{value:.5g}" for value in pixels[row])
            raise InputError(
                f"{where}, row {row + 1}: expected x1, y1, x2, y2 in pixels, found {found}: "
                f"{reason}"
            )
    return boxes.clip(0, 1).astype(np.float32)
