"""Region features in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sparta.errors import InputError
from sparta.features.readers.base import named_source, without_boxes
from sparta.features.readers.parsing.numpy_files import map_array
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
    path = folder / f"{split}_ids.txt"
    lines = [line.strip() for line in read_lines(path)]
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


class PrecompReader:
    """Images of some splits of a folder, by row in order of their ids.

    `{split}_ims.npy` holds [images, regions, d] floats and is mapped into memory; there are
    neither boxes nor labels nor sizes, so every box is the whole photo and width and height are 0.

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
            region is not finite or all zeros.
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
        self._arrays = [map_array(path, 3, "float") for path in self.files]
        dimension = self._arrays[0].shape[2]
        for path, array in zip(self.files, self._arrays, strict=True):
            if array.shape[2] != dimension:
                raise InputError(
                    f"{path}: expected [images, regions, {dimension}] as {self.files[0]} has, "
                    f"found {list(array.shape)}"
                )
        self.source = named_source(name, dimension)
        found: dict[str, tuple[int, int]] = {}
        for part, (split, array) in enumerate(zip(chosen, self._arrays, strict=True)):
            for row, key in enumerate(image_ids(folder, split.name, len(array))[: split.limit]):
                if key in found:
                    raise InputError(
                        f"{folder}: image {key!r} is in two splits: {splits[found[key][0]]} and "
                        f"{splits[part]}"
                    )
                found[key] = part, row
        self._rows = sorted((key + image_suffix, *place) for key, place in found.items())
        self.ids: Sequence[str] = [row[0] for row in self._rows]

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if one of its regions is not finite, or all zeros.
        """
        image_id, part, line = self._rows[row]
        where = f"{self.files[part]}, image {line + 1} ({image_id})"
        return without_boxes(image_id, check_features(self._arrays[part][line], where))
