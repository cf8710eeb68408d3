"""Region features in the TSVs of LXMERT: those of bottom-up attention, with classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparta.features.readers.base import named_source
from sparta.features.readers.parsing.class_names import (
    ATTRIBUTE_CONFIDENCE,
    Classes,
    Vocabularies,
)
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.tsv.regions import RegionLines, TsvColumns
from sparta.features.record import ImageFeatures

COLUMNS = TsvColumns(
    (
        "img_id",
        "img_h",
        "img_w",
        "objects_id",
        "objects_conf",
        "attrs_id",
        "attrs_conf",
        "num_boxes",
        "boxes",
        "features",
    ),
    "img_w",
    "img_h",
)
CLASSES = {"objects_id": "<i8", "objects_conf": "<f4", "attrs_id": "<i8", "attrs_conf": "<f4"}


def fits(path: Path) -> bool:
    """Whether a file looks like one of these."""
    return COLUMNS.fit(path)


class LxmertReader:
    """Images of one or more TSVs, by row in order of their ids; one is in memory at a time.

    Each line has the columns above, arrays in base64: boxes are [n, 4] float32 in pixels, features
    [n, d] float32, classes [n] int64 counted without a background, confidences [n] float32.
    Regions are in order of confidence only where the detector's number of them was cut to the
    least or the most allowed.

    Args:
        paths: of the files, such as those of train and val.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.
        vocabulary: folder of the words for classes; None for regions without labels.

    Attributes:
        source: kind "region".
        ids: of the images, in order; equal ones are neighbours.
        files: those read.

    Raises:
        InputError: naming file and line, if a file is missing or no line can be read. Reading an
            image raises it, naming the field too, if its line is cut, a cell is malformed, a
            class is not in the vocabulary, or the image is a duplicate.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        image_suffix: str = "",
        name: str = "lxmert",
        limit: RegionLimit = RegionLimit(),
        vocabulary: Path | None = None,
    ) -> None:
        self._choice = limit
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        self._vocabularies = None if vocabulary is None else Vocabularies(vocabulary, above)
        self._lines = RegionLines(paths, COLUMNS, image_suffix)
        words = () if self._vocabularies is None else self._vocabularies.files
        self.files: Sequence[Path] = [*self._lines.files, *words]
        self.ids: Sequence[str] = self._lines.ids
        source = named_source(name, self._lines.dimension)
        self.source = replace(source, extra=limit.extra)

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if it is malformed, naming file, line and field.
        """
        cells = self._lines.cells(row)
        image = self._lines.image(row, cells)
        count = len(image.features)
        found = Classes(
            cells.where,
            **{name: cells.rows(name, kind, count, 1)[:, 0] for name, kind in CLASSES.items()},
        )
        if self._vocabularies is not None:
            labels, attributes = self._vocabularies.words(found)
            image = replace(image, labels=labels, attributes=attributes)
        return image.take(self._choice.rows(count, found.objects_conf, cells.where))
