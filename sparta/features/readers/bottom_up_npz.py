"""Region features in the `.npz` files of bottom-up-attention.pytorch, one an image.

Classes and confidences are in `info`, a pickled object, and unpickling may run code. So `info` is
never read. Users who trust the files convert them once with `CONVERSION`, which writes the content
of `info` as further arrays.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.features.readers.base import named_source
from sparta.features.readers.parsing.arrays.header import Header
from sparta.features.readers.parsing.class_names import ATTRIBUTE_CONFIDENCE, Classes, Vocabularies
from sparta.features.readers.parsing.memory_limit import check_size
from sparta.features.readers.parsing.region_limit import RegionLimit
from sparta.features.readers.parsing.validation import check_features, relative_boxes
from sparta.features.record import ImageFeatures

CONVERSION = """\
import glob, numpy
for path in glob.glob("FOLDER/*.npz"):
    arrays = dict(numpy.load(path, allow_pickle=True))
    info = arrays.pop("info").item()
    arrays |= {key: info[key] for key in info if key.startswith(("objects_", "attrs_"))}
    numpy.savez_compressed(path, **arrays)
"""
SUFFIX = ".npz"
NEEDED = ("x", "bbox", "num_bbox", "image_w", "image_h")
CLASSES = ("objects_id", "objects_conf", "attrs_id", "attrs_conf")
FLOATS, INTEGERS = "f", "iu"  # as numpy.dtype.kind spells them
MEMBER = ".npy"  # of the members of an archive


def fits(path: Path) -> bool:
    """Whether a path looks like a folder of such files."""
    first = next(path.glob(f"*{SUFFIX}"), None)
    return first is not None and set(NEEDED) <= array_names(first)


class BottomUpNpzReader:
    """Images of one or more folders, by row in order of their ids; one is in memory at a time.

    A file is called as its photo, up to the first dot of that, and holds x [n, d] floats
    (features), bbox [n, 4] floats (in pixels), num_bbox (n), image_w and image_h; after conversion
    objects_id and attrs_id too, [n] integers (classes counted without a background), and
    objects_conf and attrs_conf, [n] floats. Regions are in order of confidence only where the
    detector's number of them was cut to the least or the most allowed.

    Args:
        folders: with the files, such as those of train and val.
        image_suffix: put behind each file's name to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.
        vocabulary: folder of the words for classes; None for regions without labels.

    Attributes:
        source: kind "region".
        ids: of the images, in order; equal ones are neighbours.
        files: those read.

    Raises:
        InputError: naming the file, if a folder has none or none can be read, or the first has no
            classes where they are needed. Reading an image raises it, naming the array too, if its
            file is damaged, an array is malformed, a class is not in the vocabulary, or the
            image was there before.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        image_suffix: str = "",
        name: str = "bottom-up-npz",
        limit: RegionLimit = RegionLimit(),
        vocabulary: Path | None = None,
    ) -> None:
        self._choice = limit
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        self._vocabularies = None if vocabulary is None else Vocabularies(vocabulary, above)
        paths = [path for folder in folders for path in _files_of(folder)]
        # The sort keeps the order of folders, so that the first of equal ones is from the first.
        named = [(_text(path.name.removesuffix(SUFFIX)) + image_suffix, path) for path in paths]
        self._rows = sorted(named, key=lambda row: row[0])
        self.ids: Sequence[str] = [row[0] for row in self._rows]
        words = () if self._vocabularies is None else self._vocabularies.files
        self.files: Sequence[Path] = [*paths, *words]
        first, self._dimension = _first_readable(paths)
        self._classes = vocabulary is not None or limit.by == "confident"
        if self._classes and "objects_id" not in first:
            raise InputError(
                f"{first.where}: objects_id: missing. Classes and confidences are in info, "
                "and loading that may run code. If you trust the files, convert them once with "
                f"this Python:\n\n{CONVERSION.replace('FOLDER', str(Path(first.where).parent))}"
            )
        self.source = replace(named_source(name, self._dimension), extra=limit.extra)

    def __getitem__(self, row: int) -> ImageFeatures:
        """The image of one row.

        Raises:
            InputError: if it is malformed, naming file and array.
        """
        image_id, path = self._rows[row]
        if _text(path.name) != path.name:
            raise InputError(f"{_text(str(path))}: the file name is not UTF-8")
        if row and self.ids[row - 1] == image_id:
            raise InputError(f"{path}: image {image_id!r} was already in {self._rows[row - 1][1]}")
        arrays = Arrays(path, NEEDED + CLASSES)
        image = _read_image(image_id, arrays, self._dimension)
        confidences = None
        if self._classes:
            classes = _read_classes(arrays, len(image.features))
            confidences = classes.objects_conf
            if self._vocabularies is not None:
                labels, attributes = self._vocabularies.words(classes)
                image = replace(image, labels=labels, attributes=attributes)
        return image.take(self._choice.rows(len(image.features), confidences, arrays.where))


def _text(name: str) -> str:
    """A file's name, what is not UTF-8 in it escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _files_of(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"{folder} is no folder with {SUFFIX} files")
    return files


def _first_readable(paths: Sequence[Path]) -> tuple[Arrays, int]:
    """The first file whose arrays agree, and the numbers per row of its features."""
    first: InputError | None = None
    for path in paths:
        try:
            arrays = Arrays(path, NEEDED + CLASSES)
            return arrays, _read_image("", arrays, None).features.shape[1]
        except InputError as error:
            first = first or error
    raise first or InputError("no folder was named")


def _read_image(image_id: str, arrays: Arrays, dimension: int | None) -> ImageFeatures:
    """All regions of a file, without words."""
    width, height = arrays.number("image_w"), arrays.number("image_h")
    count = arrays.number("num_bbox")
    boxes = arrays.get("bbox", FLOATS, (count, 4))
    return ImageFeatures(
        image_id,
        check_features(arrays.get("x", FLOATS, (count, dimension)), arrays.where),
        relative_boxes(boxes, width, height, f"{arrays.where}: bbox"),
        ("",) * count,
        ("",) * count,
        width,
        height,
    )


def _read_classes(arrays: Arrays, count: int) -> Classes:
    """What the detector took the regions for."""
    objects_id = arrays.get("objects_id", INTEGERS, (count,))
    objects_conf = arrays.get("objects_conf", FLOATS, (count,))
    if "attrs_id" not in arrays:
        return Classes(arrays.where, objects_id, objects_conf)
    attrs_id = arrays.get("attrs_id", INTEGERS, (count,))
    attrs_conf = arrays.get("attrs_conf", FLOATS, (count,))
    return Classes(arrays.where, objects_id, objects_conf, attrs_id, attrs_conf)


def array_names(path: Path) -> set[str]:
    """Names of the arrays in an archive, none where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as file:
            return {name.removesuffix(MEMBER) for name in file.namelist()}
    except Exception:  # a damaged archive fails in many ways
        return set()


class Arrays:
    """Some arrays of one archive; others are not touched.

    Args:
        path: of the archive.
        names: of those to read, if present.

    Attributes:
        where: the file, for messages.

    Raises:
        InputError: if it is damaged, or an array larger than one image's can be.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.where = str(path)
        try:
            with zipfile.ZipFile(path) as file:
                present = set(file.namelist())
                self._arrays = {
                    name: _read_member(file, name + MEMBER, f"{path}: {name}")
                    for name in names
                    if name + MEMBER in present
                }
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        except Exception as error:  # as in `array_names`
            raise InputError(f"{path} is damaged or no .npz file: {first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def get(self, name: str, kinds: str, shape: tuple[int | None, ...] = ()) -> NDArray[Any]:
        """An array whose dtype is of some kinds (as NumPy's letters name them) and of a shape.

        Raises:
            InputError: if there is none, or of another kind or shape.
        """
        if name not in self:
            raise InputError(f"{self.where}: {name}: missing")
        array = self._arrays[name]
        if array.dtype.kind in kinds:
            sides = zip(array.shape, shape, strict=False)
            if array.ndim == len(shape) and all(side in (found, None) for found, side in sides):
                return array
        wanted = f"{'float' if kinds == FLOATS else 'integer'} {list(shape)}".replace("None", "any")
        raise InputError(
            f"{self.where}: {name}: expected {wanted}, found {array.dtype} {list(array.shape)}"
        )

    def number(self, name: str) -> int:
        """A whole number above 0 that a store can hold.

        Raises:
            InputError: if there is none, or it is something else.
        """
        value, largest = int(self.get(name, INTEGERS)), np.iinfo(np.int32).max
        if not 0 < value <= largest:
            limit = "1 or more" if value < 1 else f"at most {largest}"
            raise InputError(f"{self.where}: {name}: expected {limit}, found {value}")
        return value


def _read_member(archive: zipfile.ZipFile, name: str, where: str) -> NDArray[Any]:
    """An array of an archive; sizes are compared before anything is unpacked."""
    info = archive.getinfo(name)
    try:
        with archive.open(info) as file:
            header = Header.read(file)
            if header.dtype.hasobject:
                raise ValueError("it holds Python objects")
            header.check_end(info.file_size)
            check_size(header.size, where)
            return header.array(file.read(header.size))
    except InputError:
        raise
    except Exception as error:  # as in `array_names`
        raise ValueError(f"{name}: {first_line(error)}") from error
