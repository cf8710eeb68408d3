"""Region features in the TSVs of bottom-up attention (Anderson et al., CVPR 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sparta.errors import InputError
from sparta.features.readers.base import named_source
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.tsv.regions import RegionLines, TsvColumns
from sparta.features.record import ImageFeatures

COLUMNS = TsvColumns(
    ("image_id", "image_w", "image_h", "num_boxes", "boxes", "features"), "image_w", "image_h"
)


def fits(path: Path) -> bool:
    """Whether a file looks like one of these."""
    return COLUMNS.fit(path)


class BottomUpReader:
    """Images of one or more TSVs, by row in order of their ids; one is in memory at a time.

    Each line has the columns above: boxes are base64 of [n, 4] float32 in pixels, features of
    [n, d] float32. There are neither labels nor confidences. Regions are in order of confidence
    only where the detector's number of them was cut to the least or the most allowed.

    Args:
        paths: of the files, such as those of train and val.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions to keep.

    Attributes:
        source: kind "region".
        ids: of the images, in order; equal ones are neighbours.
        files: those read.

    Raises:
        InputError: naming file and line, if a file is missing, no line can be read, or regions
            are to be chosen by confidence. Reading an image raises it, naming the field too, if
            its line is cut, a cell is malformed, or the image is a duplicate.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        image_suffix: str = "",
        name: str = "bottom-up",
        limit: RegionLimit = RegionLimit(),
    ) -> None:
        if limit.by == "confident":
            raise InputError(
                "--keep confident: TSVs of bottom-up attention hold no confidences; use first"
            )
        self._choice = limit
        self._lines = RegionLines(paths, COLUMNS, image_suffix)
        self.files: Sequence[Path] = self._lines.files
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
        return image.take(self._choice.rows(len(image.features), None, cells.where))
