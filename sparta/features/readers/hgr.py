"""Video features in the folders of HGR (MSR-VTT, VATEX, TGIF, Youtube2Text)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.extras import require
from sparta.features.readers.base import (
    FeatureReader,
    FileLength,
    ImportOptions,
    check_features,
    check_size,
    merge_splits,
    without_boxes,
)
from sparta.features.readers.npy import ArrayFile
from sparta.features.record import ImageFeatures

MAX_FRAMES = 20
NUMBERS = "fiu"  # as numpy.dtype.kind spells them
SPLITS = ("trn", "val", "tst")


def fits(path: Path) -> bool:
    """Whether a path looks like a folder of features under SA or MP."""
    return any(
        (path / f"{split}_ft.{kind}").exists() for split in SPLITS for kind in ("hdf5", "npy")
    )


def read_names(root: Path, split: str) -> list[str]:
    """Names of a split's videos, in the order of its features.

    Args:
        root: folder that holds `public_split`.
        split: "trn", "val" or "tst".

    Raises:
        InputError: if `public_split/{split}_names.npy` is absent, holds no strings or none, or
            one is no text, blank or there twice.
    """
    path = root / "public_split" / f"{split}_names.npy"
    names = _decode(ArrayFile(path, (1,), "str").whole, path)
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

    Raises:
        InputError: if a file is missing or damaged, names and features disagree in number, splits
            in their dimension, a video is in two of the splits, or an HDF5 file is to be read
            without h5py.
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


def _decode(array: NDArray[Any], path: Path) -> list[str]:
    """Strings of an array of them; NumPy itself fails over what is no character."""
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

    def frames(self, row: int, _name: str) -> NDArray[Any]:
        return self._array[row][np.newaxis]


class _Frames:
    """A matrix per video, under its name."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self._h5py = require("h5py")
        self.path, self._length = path, FileLength(path)
        try:
            self._file = self._h5py.File(path, "r")
        except OSError as error:
            raise InputError(f"{path} is damaged or no HDF5 file: {error}") from error
        self.dimension = self._first_dimension(names)

    def frames(self, _row: int, name: str) -> NDArray[Any]:
        """At most 20 of the frames; the others are not read."""
        where = f"{self.path}, video {name!r}"
        found = self._video(name)
        length = found.shape[0]
        check_size(min(length, MAX_FRAMES) * prod(found.shape[1:]) * found.dtype.itemsize, where)
        check_size(prod(found.chunks or ()) * found.dtype.itemsize, f"{where}: a chunk")
        try:
            frames: NDArray[Any] = found[pick_frames(length)]
        except (OSError, RuntimeError) as error:
            raise InputError(f"{where}: damaged: {first_line(error)}") from error
        self._length.check()
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
