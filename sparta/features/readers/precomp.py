"""Region features in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparta.errors import InputError
from sparta.features.readers.base import named_source, without_boxes
from sparta.features.readers.parsing.arrays.npy import ArrayFile
from sparta.features.readers.parsing.text_lines import read_lines
from sparta.features.readers.parsing.validation import check_features
from sparta.features.record import ImageFeatures


@dataclass(frozen=True)
class PrecompSplit:
    """A split of a folder as users write it: `dev`, or `dev:1000` for its first 1,000 images.

    The published results choose the model by the first 1,000 of COCO's 5,000 dev images.
    """

    name: str
    limit: int | None

    @classmethod
    def parse(cls, text: str) -> PrecompSplit:
        """Read the spelling above.

        Raises:
            InputError: if what follows the colon is no positive number.
        """
        name, colon, limit = text.partition(":")
        if colon and not (limit.isdecimal() and int(limit)):
            raise InputError(f"split {text!r}: expected a number of images after the colon")
        return cls(name, int(limit) if colon else None)


def fits(path: Path) -> bool:
    """Whether a path looks like such a folder."""
    return any(path.glob("*_ims.npy")) and any(path.glob("*_ids.txt"))


def splits_of(folder: Path) -> list[str]:
    """Names of the splits a folder has captions of."""
    return sorted(path.name.removesuffix("_caps.txt") for path in folder.glob("*_caps.txt"))


def image_ids(folder: Path, split: str, images: int) -> list[str]:
    """Ids of a split's images from `{split}_ids.txt`.

    Two conventions are in use: one line per image, and one per caption, the image's id repeated.

    Args:
        folder: the `precomp` folder.
        split: its name.
        images: their number, from the features or captions.

    Raises:
        InputError: if the lines are neither, a line is blank, or an id appears twice.
    """
    path = _ids_file(folder, split)
    lines = _read_ids(path)
    group, rest = divmod(len(lines), max(images, 1))
    if rest or not group:
        raise InputError(
            f"{path}: expected {images} lines, one for each image, or a multiple of that, one for "
            f"each caption; found {len(lines)}"
        )
    first: dict[str, int] = {}
    for start in range(0, len(lines), group):
        found, where = lines[start], f"{path}, line {start + 1}"
        if not found:
            raise InputError(f"{where}: the id is blank")
        if other := set(lines[start : start + group]) - {found}:
            raise InputError(
                f"{where}: expected {group} lines of one image, found {found!r} and {min(other)!r}"
            )
        if first.setdefault(found, start) != start:
            raise InputError(f"{where}: image {found!r} was already in line {first[found] + 1}")
    return list(first)


def _rows_per_image(folder: Path, split: str, rows: int) -> int:
    """Rows of features that an image has: SCAN's converter writes one for each caption."""
    lines = _read_ids(_ids_file(folder, split))
    if not rows or len(lines) != rows:
        return 1
    return next((row for row, line in enumerate(lines) if line != lines[0]), rows)


def _ids_file(folder: Path, split: str) -> Path:
    return folder / f"{split}_ids.txt"


def _read_ids(path: Path) -> list[str]:
    return [line.strip() for line in read_lines(path)]


class PrecompReader:
    """Images of some splits of a folder, by row in order of their ids.

    `{split}_ims.npy` holds [rows, regions, d] floats, a row for each image or, with an id for each
    row, for each caption, the image's repeated. There are neither boxes nor labels nor sizes, so
    every box is the whole photo and width and height are 0.

    Args:
        folder: the `precomp` folder.
        splits: its splits, as `PrecompSplit` reads them.
        image_suffix: put behind each id.
        name: what made the features; replaces the hash of the detector's weights.

    Attributes:
        source: kind "region".
        ids: of the images, rising.
        files: those read.

    Raises:
        InputError: if a file is missing or cut, ids and features disagree in number, splits in
            their dimension, or an image is in two of the splits. Reading an image raises it if a
            region is not finite or all zeros, or the image's rows differ.
    """

    def __init__(
        self,
        folder: Path,
        splits: Sequence[str],
        image_suffix: str = "",
        name: str = "precomp",
    ) -> None:
        chosen = [PrecompSplit.parse(text) for text in splits]
        self.files: Sequence[Path] = [folder / f"{split.name}_ims.npy" for split in chosen]
        self._arrays = [ArrayFile(path, 3, "float") for path in self.files]
        dimension = self._arrays[0].shape[2]
        for path, array in zip(self.files, self._arrays, strict=True):
            if array.shape[2] != dimension:
                raise InputError(
                    f"{path}: expected [images, regions, {dimension}] as {self.files[0]} has, "
                    f"found {list(array.shape)}"
                )
        self.source = named_source(name, dimension)
        found: dict[str, tuple[int, slice]] = {}
        for part, (split, array) in enumerate(zip(chosen, self._arrays, strict=True)):
            step = _rows_per_image(folder, split.name, len(array))
            keys = image_ids(folder, split.name, len(array) // step)[: split.limit]
            for image, key in enumerate(keys):
                if key in found:
                    raise InputError(
                        f"{folder}: image {key!r} is in two splits: {splits[found[key][0]]} and "
                        f"{splits[part]}"
                    )
                found[key] = part, slice(image * step, (image + 1) * step)
        self._rows = [(key + image_suffix, *found[key]) for key in sorted(found)]
        self.ids: Sequence[str] = [row[0] for row in self._rows]

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if one of its regions is not finite, or all zeros, or its rows differ.
        """
        image_id, part, lines = self._rows[row]
        where = f"{self.files[part]}, image {lines.start + 1} ({image_id})"
        first, *others = (self._arrays[part][line] for line in range(lines.start, lines.stop))
        features = check_features(first, where)
        for number, other in enumerate(others, 2):
            if not np.array_equal(first, other):
                raise InputError(f"{where}: features: its rows 1 and {number} differ")
        return without_boxes(image_id, features)
