"""Region features in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from sparta.errors import InputError
from sparta.features.readers.base import (
    FeatureReader,
    ImportOptions,
    check_features,
    merge_splits,
    read_lines,
    without_boxes,
)
from sparta.features.readers.npy import ArrayFile
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
    return any(path.glob("*_ims.npy"))


def splits_of(folder: Path, ending: str = "_caps.txt") -> list[str]:
    """Names of the splits a folder has captions of, or other files."""
    return sorted(path.name.removesuffix(ending) for path in folder.glob(f"*{ending}"))


def rows_of_images(folder: Path, split: PrecompSplit, rows: int, path: Path) -> dict[str, slice]:
    """The rows of each image among the captions or the features of a split, by id.

    Two conventions are in use for `{split}_ids.txt`: one line per image, and one per caption, the
    image's id repeated. A file with as many rows as ids has a row for each; any other has the same
    number of rows for every image.

    Args:
        folder: the `precomp` folder.
        split: its name, and how many images of it to take.
        rows: their number.
        path: the file that has them, for messages.

    Raises:
        InputError: if the file of ids is missing, the numbers disagree, an id is blank, or it
            appears again after another one.
    """
    listing = folder / f"{split.name}_ids.txt"
    if not listing.is_file():
        raise InputError(
            f"{listing} is missing: write the image ids, one a line, in the order of {path.name}"
        )
    ids = [line.strip() for line in read_lines(listing)]
    starts = [line for line, name in enumerate(ids) if not line or name != ids[line - 1]]
    first: dict[str, int] = {}
    for line in starts:
        if not ids[line]:
            raise InputError(f"{listing}, line {line + 1}: the id is blank")
        if first.setdefault(ids[line], line) != line:
            raise InputError(
                f"{listing}, line {line + 1}: image {ids[line]!r} was already in line "
                f"{first[ids[line]] + 1}"
            )
    group, rest = divmod(rows, len(starts) or rows + 1)
    if rows != len(ids) and (rest or not group):
        raise InputError(
            f"{path}: {rows} rows for the {len(starts)} images of {listing.name}, which has "
            f"{len(ids)} lines: expected a row for each line, or equally many for each image"
        )
    bounds = [*starts, rows] if rows == len(ids) else [*range(0, rows + 1, group)]
    images = {ids[line]: slice(*pair) for line, pair in zip(starts, pairwise(bounds), strict=True)}
    return dict(islice(images.items(), split.limit))


class PrecompReader(FeatureReader):
    """Images of some splits of a folder.

    `{split}_ims.npy` holds [rows, regions, d] floats, or [rows, d] of whole photos: a row for each
    image or for each caption, the image's repeated. There are neither boxes nor labels nor sizes.

    Raises:
        InputError: if a file is missing or cut, ids and features disagree in number, splits in
            their dimension, or an image is in two of the splits.
    """

    def __init__(self, paths: Sequence[Path], options: ImportOptions) -> None:
        (folder,) = paths
        chosen = [PrecompSplit.parse(text) for text in options.splits]
        files = [folder / f"{split.name}_ims.npy" for split in chosen]
        self._arrays = [ArrayFile(path, (2, 3), "float") for path in files]
        dimension = self._arrays[0].shape[-1]
        for path, array in zip(files, self._arrays, strict=True):
            if array.shape[-1] != dimension:
                raise InputError(
                    f"{path}: expected vectors of {dimension} numbers as {files[0]} has, "
                    f"found {list(array.shape)}"
                )
        parts = zip(chosen, self._arrays, files, strict=True)
        rows = [rows_of_images(folder, split, len(array), path) for split, array, path in parts]
        found = merge_splits(f"{folder}: image", options.splits, rows)
        self._rows = [(key + options.image_suffix, *found[key]) for key in sorted(found)]
        super().__init__(options, dimension, [row[0] for row in self._rows], files)

    def __getitem__(self, row: int) -> ImageFeatures:
        image_id, part, lines = self._rows[row]
        where = f"{self.files[part]}, image {lines.start + 1} ({image_id})"
        read = (self._arrays[part][line] for line in range(lines.start, lines.stop))
        first, *others = map(np.atleast_2d, read)
        features = check_features(first, where)
        for number, other in enumerate(others, 2):
            if not np.array_equal(first, other):
                raise InputError(f"{where}: features: its rows 1 and {number} differ")
        return without_boxes(image_id, features)
