"""Region features in the `.npz` files of bottom-up-attention.pytorch, one an image.

Classes and confidences are in `info`, a pickled object, and unpickling may run code. So `info` is
never read. Users who trust the files convert them once with `CONVERSION`, which writes the content
of `info` as further arrays.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sparta.errors import InputError
from sparta.features.readers.base import (
    FeatureReader,
    ImportOptions,
    check_features,
    relative_boxes,
    without_labels,
)
from sparta.features.readers.labels import Classes, Classifier
from sparta.features.readers.npy import FLOATS, INTEGERS, Arrays, array_names
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
CLASSES = {"objects_id": INTEGERS, "objects_conf": FLOATS}
ATTRIBUTES = {"attrs_id": INTEGERS, "attrs_conf": FLOATS}


def fits(path: Path) -> bool:
    """Whether a path looks like a folder of such files."""
    first = next(path.glob(f"*{SUFFIX}"), None)
    return first is not None and set(NEEDED) <= array_names(first)


class BottomUpNpzReader(FeatureReader):
    """Images of one or more folders.

    A file is called as its photo, up to the first dot of that, and holds x [n, d] floats
    (features), bbox [n, 4] floats (in pixels), num_bbox (n), image_w and image_h; after conversion
    objects_id and attrs_id too, [n] integers (classes counted without a background), and
    objects_conf and attrs_conf, [n] floats. Regions are in order of confidence only where the
    detector's number of them was cut to the least or the most allowed.

    Raises:
        InputError: naming the file, if a folder has none or none can be read, or the first has no
            classes where they are needed.
    """

    def __init__(self, folders: Sequence[Path], options: ImportOptions) -> None:
        self._classifier = Classifier(options)
        paths = [path for folder in folders for path in _files_of(folder)]
        # The sort keeps the order of folders, so that the first of equal ones is from the first.
        named = [
            (_text(path.name.removesuffix(SUFFIX)) + options.image_suffix, path) for path in paths
        ]
        self._rows = sorted(named, key=lambda row: row[0])
        first, self._dimension = _first_readable(paths)
        if self._classifier.needed and "objects_id" not in first:
            raise InputError(
                f"{first.where}: objects_id: missing. Classes and confidences are in info, "
                "and loading that may run code. If you trust the files, convert them once with "
                f"this Python:\n\n{CONVERSION.replace('FOLDER', str(Path(first.where).parent))}"
            )
        ids = [row[0] for row in self._rows]
        super().__init__(options, self._dimension, ids, [*paths, *self._classifier.files])

    def __getitem__(self, row: int) -> ImageFeatures:
        image_id, path = self._rows[row]
        if _text(path.name) != path.name:
            raise InputError(f"{_text(str(path))}: the file name is not UTF-8")
        if row and self.ids[row - 1] == image_id:
            raise InputError(f"{path}: image {image_id!r} was already in {self._rows[row - 1][1]}")
        arrays = _open(path)
        image = _read_image(image_id, arrays, self._dimension)
        classes = None
        if self._classifier.needed:
            named = CLASSES | (ATTRIBUTES if "attrs_id" in arrays else {})
            shape = (len(image.features),)
            found = {name: arrays.get(name, kind, shape) for name, kind in named.items()}
            classes = Classes(arrays.where, **found)
        return self._classifier.label(image, classes, arrays.where)


def _text(name: str) -> str:
    """A file's name, what is not UTF-8 in it escaped."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _files_of(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if not files:
        raise InputError(f"{folder} is no folder with {SUFFIX} files")
    return files


def _open(path: Path) -> Arrays:
    return Arrays(path, (*NEEDED, *CLASSES, *ATTRIBUTES))


def _first_readable(paths: Sequence[Path]) -> tuple[Arrays, int]:
    """The first file whose arrays agree, and the numbers per row of its features."""
    first: InputError | None = None
    for path in paths:
        try:
            arrays = _open(path)
            return arrays, _read_image("", arrays, None).features.shape[1]
        except InputError as error:
            first = first or error
    raise first or InputError("no folder was named")


def _read_image(image_id: str, arrays: Arrays, dimension: int | None) -> ImageFeatures:
    """All regions of a file, without words."""
    width, height = arrays.number("image_w"), arrays.number("image_h")
    count = arrays.number("num_bbox")
    boxes = arrays.get("bbox", FLOATS, (count, 4))
    features = check_features(arrays.get("x", FLOATS, (count, dimension)), arrays.where)
    boxes = relative_boxes(boxes, width, height, f"{arrays.where}: bbox")
    return without_labels(image_id, features, boxes, width, height)
