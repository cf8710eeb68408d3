"""Region features in the `precomp` folders of VSE++, SCAN and their descendants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.extras import require
from sparta.features.record import ImageFeatures
from sparta.readers.base import (
    FeatureReader,
    ImportOptions,
    check_features,
    check_length,
    check_size,
    file_length,
    merge_splits,
    read_lines,
    without_boxes,
)
from sparta.readers.npy import INTEGERS, ArrayFile


@dataclass(frozen=True)
class PrecompSplit:
    """A split of a folder as users write it: `dev`, or `dev:1000` for its first 1,000 images.

    The published results choose the model by the first 1,000 of COCO's 5,000 dev images.
    """

    name: str
    limit: int | None

    @classmethod
    def parse(cls, text: str) -> PrecompSplit:
        """Read the spelling above."""
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


# ---- folders of HGR ------------------------------------------------------------------------------

MAX_FRAMES = 20
NUMBERS = "fiu"  # as numpy.dtype.kind spells them
HGR_SPLITS = ("trn", "val", "tst")


def fits_hgr(path: Path) -> bool:
    """Whether a path looks like a folder of features under SA or MP."""
    return any(
        (path / f"{split}_ft.{kind}").exists() for split in HGR_SPLITS for kind in ("hdf5", "npy")
    )


def read_names(root: Path, split: str) -> list[str]:
    """Names of a split's videos in `ROOT/public_split`, in the order of its features."""
    path = root / "public_split" / f"{split}_names.npy"
    names = decode_names(ArrayFile(path, (1,), "str").whole, path)
    if not names:
        raise InputError(f"{path} holds no name")
    first: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name.strip():
            raise InputError(f"{path}, name {row + 1}: it is blank")
        if first.setdefault(name, row) != row:
            raise InputError(f"{path}, name {row + 1}: {name!r} was already name {first[name] + 1}")
    return names


def pick_frames(frames: int, most: int = MAX_FRAMES) -> NDArray[np.int64]:
    """Indices of at most `limit` frames, evenly spaced, the first and the last among them."""
    return np.round(np.linspace(0, frames - 1, min(frames, most))).astype(np.int64)


class HgrReader(FeatureReader):
    """Videos of some splits as sets of frames.

    `ROOT/ordered_feature/SA/FEATURES/{split}_ft.hdf5` holds [frames, d] floats under each name
    ("/" as "_"), of which at most 20 evenly spaced frames are taken;
    `ROOT/ordered_feature/MP/FEATURES/{split}_ft.npy` holds [videos, d], one mean per video, in
    the order of `ROOT/public_split/{split}_names.npy`. A frame becomes a region whose box is the
    whole picture; there are neither labels nor sizes. The features are called as `FEATURES`.
    """

    def __init__(self, paths: Sequence[Path], options: ImportOptions) -> None:
        folder = paths[0].absolute()
        if options.image_suffix:
            raise InputError("--image-suffix: videos are named, leave it out")
        names = [read_names(folder.parents[2], split) for split in options.splits]
        splits = zip(options.splits, names, strict=True)
        self._parts = [_open_features(folder, split, own) for split, own in splits]
        self._dimension = self._parts[0].dimension
        rows = [{name: row for row, name in enumerate(own)} for own in names]
        found = merge_splits(f"{folder}: video", options.splits, rows)
        self._rows = sorted((video, *place) for video, place in found.items())
        options = options._replace(made_by=options.made_by or folder.name)
        files = [part.path for part in self._parts]
        super().__init__(options, self._dimension, [row[0] for row in self._rows], files)

    def __getitem__(self, row: int) -> ImageFeatures:
        video, number, line = self._rows[row]
        part = self._parts[number]
        where = f"{part.path}, video {video!r}"
        frames = part.frames(line, video)
        if frames.ndim != 2 or frames.shape[1] != self._dimension:
            raise InputError(
                f"{where}: expected [frames, {self._dimension}], found {list(frames.shape)}"
            )
        return without_boxes(video, check_features(frames, where))


def decode_names(array: NDArray[np.number], path: Path) -> list[str]:
    """Strings of an array of them, or of numbers; NumPy itself fails over what is no character."""
    if array.dtype.kind in INTEGERS:
        return [str(number) for number in array.tolist()]
    codec = "utf-32-le" if array.dtype.kind == "U" else "utf-8"
    array = array.astype(array.dtype.newbyteorder("<"))
    names = []
    for row in range(len(array)):
        try:
            names.append(array[row : row + 1].tobytes().decode(codec).rstrip("\0"))
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, name {row + 1}: it is no text: {error.reason}") from error
    return names


class _Means:
    """One vector per video, in the order of the names."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.path = path
        self._array = ArrayFile(path, (2,), "float")
        if len(self._array) != len(names):
            raise InputError(
                f"{path}: expected {len(names)} rows, one for each name of the split, found "
                f"{len(self._array)}"
            )
        self.dimension: int = self._array.shape[1]

    def frames(self, row: int, _name: str) -> NDArray[np.number]:
        return self._array[row][np.newaxis]


class _Frames:
    """A matrix per video, under its name."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._h5py = require("h5py")
        self.path, self._length = path, file_length(path)
        try:
            self._file = self._h5py.File(path, "r")
        except OSError as error:
            raise InputError(f"{path} is damaged or no HDF5 file: {error}") from error
        self.dimension = self._first_dimension(names)

    def frames(self, _row: int, name: str) -> NDArray[np.number]:
        """At most 20 of the frames; the others are not read."""
        where = f"{self.path}, video {name!r}"
        found = self._video(name)
        length = found.shape[0]
        check_size(min(length, MAX_FRAMES) * prod(found.shape[1:]) * found.dtype.itemsize, where)
        check_size(prod(found.chunks or ()) * found.dtype.itemsize, f"{where}: a chunk")
        try:
            frames: NDArray[np.number] = found[pick_frames(length)]
        except (OSError, RuntimeError) as error:
            raise InputError(f"{where}: damaged: {first_line(error)}") from error
        check_length(self.path, self._length)
        return frames

    def _video(self, name: str) -> Any:
        """The data set of a video; nothing of it is read."""
        where = f"{self.path}, video {name!r}"
        try:
            found = self._file[name.replace("/", "_")]
        except KeyError as error:
            raise InputError(f"{self.path}: video {name!r} is missing") from error
        expected = f"{where}: expected numbers of [frames, d], found"
        if not isinstance(found, self._h5py.Dataset):
            raise InputError(f"{expected} a group")
        if not found.shape:
            raise InputError(f"{expected} a single {found.dtype}")
        if found.dtype.kind not in NUMBERS:
            raise InputError(f"{expected} {found.dtype} {list(found.shape)}")
        return found

    def _first_dimension(self, names: Sequence[str]) -> int:
        """Numbers per frame of the first video that has frames."""
        first: InputError | None = None
        for name in names:
            try:
                return int(self._video(name).shape[-1])
            except InputError as error:
                first = first or error
        raise first or InputError(f"{self.path} holds no video")


def _open_features(folder: Path, split: str, names: Sequence[str]) -> _Means | _Frames:
    frames, means = folder / f"{split}_ft.hdf5", folder / f"{split}_ft.npy"
    if frames.exists():
        return _Frames(frames, names)
    if means.exists():
        return _Means(means, names)
    raise InputError(f"{folder} holds neither {frames.name} nor {means.name}")
