"""Region features in the `.pt` dictionaries of Oscar's first version."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.oscar_base import OscarReader
from sparta.features.readers.parsing.base64_floats import LOCATION
from sparta.features.readers.parsing.detected_objects import (
    ATTRIBUTE_CONFIDENCE,
    OBJECTS,
    LabelledObjects,
    check_objects,
    parse,
)
from sparta.features.readers.parsing.file_length import FileLength
from sparta.features.readers.parsing.memory_limit import check_size
from sparta.features.readers.parsing.region_limit import RegionLimit

FEATURES = "_feats.pt"  # ends of names
LABELS = "_labels.pt"
JSON = ("[", "{")  # what it begins with
KIND = "_img_"  # parts the split from the rest of the name of features

log = logging.getLogger(__name__)
ARCHIVE = b"PK"  # the first bytes of one


def fits(path: Path) -> bool:
    """Whether a path looks like one of these files, or a folder of them."""
    if path.is_dir():
        return any(path.glob(f"*{FEATURES}"))
    return path.name.endswith((FEATURES, LABELS))


class OscarPtReader(OscarReader):
    """Images of one or more files, by row in order of their ids.

    `SPLIT_img_KIND_feats.pt` is a dictionary from image keys to [n, d + 6] floats, a location at
    each row's end; `SPLIT_KIND_labels.pt` beside it, one from image keys to a list of objects, to
    that list as a JSON string, or to one string with all labels. The last describes the whole photo
    and goes to its largest region. Sizes of photos are unknown.

    Files are mapped into memory, and their size is checked before an image is read; those written
    by PyTorch before 1.6 cannot be mapped, and are loaded as a whole.

    Args:
        paths: of files of features, or of folders with them; and of files of labels, where there
            are several of a split.
        image_suffix: put behind each key to make the image id.
        name: what made the features; replaces the hash of the detector's weights.
        limit: of the regions and attributes to keep.

    Raises:
        InputError: if a file is missing, damaged, or holds more than tensors, text and numbers;
            or a split has several files of labels, of which none is named; further as
            `OscarReader`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        image_suffix: str = "",
        name: str = "oscar",
        limit: RegionLimit = RegionLimit(),
    ) -> None:
        features, labels = _sorted_out(paths)
        above = limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        parts = [_Dictionaries(path, _labels_of(path, labels), above) for path in features]
        super().__init__(parts, image_suffix, name, limit)


class _Dictionaries:
    def __init__(self, features: Path, labels: Path | None, above: float) -> None:
        self._above = above
        self.features = PtDictionary(features)
        self.labels = None if labels is None else PtDictionary(labels)
        self.files = [features] if labels is None else [features, labels]

    def width(self, entry: int) -> int:
        return int(self._rows(entry).shape[1])

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        rows = self._rows(entry)
        if rows.shape[1] != width:
            raise InputError(
                f"{self.features.where(entry)}: features: expected rows of {width} numbers, "
                f"found {rows.shape[1]}"
            )
        return rows

    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        if self.labels is None or entry is None:
            return LabelledObjects(), self.features.where(self.features.first[key])
        found, where = self.labels.values[entry], self.labels.where(entry)
        if isinstance(found, str) and not found.lstrip().startswith(JSON):
            return LabelledObjects((_checked(found, where),), ("",)), where
        if isinstance(found, str):
            objects = parse(OBJECTS, _checked(found, where).encode(), f"{where}: labels")
        else:
            objects = check_objects(found, where)
        for each in objects:
            _checked(" ".join([each.label, *each.attributes]), where)
        return LabelledObjects.of(objects, 0, 0, where, self._above), where

    def _rows(self, entry: int) -> NDArray[np.floating[Any]]:
        import torch

        found, where = self.features.values[entry], f"{self.features.where(entry)}: features"
        if not isinstance(found, torch.Tensor):
            raise InputError(f"{where}: expected a tensor, found {type(found).__name__}")
        plain = found.layout is torch.strided and found.device.type == "cpu"
        if not plain or found.ndim != 2 or not found.is_floating_point():
            raise InputError(
                f"{where}: expected [regions, numbers] of floats, found {list(found.shape)} of "
                f"{found.dtype}, {found.layout}, on {found.device}"
            )
        if found.shape[1] <= LOCATION:
            raise InputError(
                f"{where}: expected rows of more than {LOCATION} numbers, found {found.shape[1]}"
            )
        check_size(found.numel() * found.element_size(), where)
        if found.numel() * found.element_size() > found.untyped_storage().nbytes():
            raise InputError(
                f"{where}: {list(found.shape)} of {found.dtype} share the same few bytes: the file "
                "has fewer numbers than it states"
            )
        self.features.length.check()
        return found.detach().float().numpy()


def _checked(text: str, where: str) -> str:
    """A text that can be written as UTF-8, which one out of a pickle need not be."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: labels: not text ({error.reason})") from error
    return text


def _sorted_out(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Files of features and files of labels among some paths."""
    files = []
    for path in paths:
        found = sorted(path.glob(f"*{FEATURES}")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path} holds no file whose name ends with {FEATURES}")
        files += found
    for path in files:
        if not path.name.endswith((FEATURES, LABELS)):
            raise InputError(f"{path}: expected a name that ends with {FEATURES} or {LABELS}")
    features = [path for path in files if path.name.endswith(FEATURES)]
    labels = [path for path in files if path.name.endswith(LABELS)]
    for path in labels:
        if not any(path.name.startswith(_split(file)) for file in features):
            raise InputError(f"{path}: there are no features of its split; name their file too")
    return features, labels


def _labels_of(features: Path, named: Sequence[Path]) -> Path | None:
    """The label file of a feature file: among those the user named, or in its folder."""
    split = _split(features)
    found = [path for path in named if path.name.startswith(split)]
    found = found or sorted(features.parent.glob(f"{split}*{LABELS}"))
    if len(found) > 1:
        raise InputError(
            f"{features}: there are several files of labels: "
            f"{', '.join(path.name for path in found)}; name one of them after the features"
        )
    if not found:
        log.warning("%s: no %s*%s is beside it: its regions have none", features, split, LABELS)
    return found[0] if found else None


def _split(features: Path) -> str:
    """The split a file's name begins with, such as `train_`."""
    return features.name.split(KIND)[0].removesuffix(FEATURES) + "_"


class PtDictionary:
    """A dictionary by image keys that `torch.save` wrote, with entries in its order.

    Attributes:
        path: the file.
        length: its length, to be checked before a tensor is read: the file is mapped into memory.
        keys: of the images, as strings.
        first: the first entry of each key: 7 and "7" are one.
        values: entry by entry.

    Raises:
        InputError: if the file cannot be read, holds more than tensors, text and numbers, or no
            dictionary; or if it is compressed, or states more bytes than it has.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = FileLength(path)
        found = _load(path, self.length.bytes)
        if not isinstance(found, dict) or not found:
            raise InputError(f"{path}: expected a dictionary by image keys, found {_kind(found)}")
        self._raw = list(found)
        self.keys: Sequence[str] = [_readable(key) for key in found]
        self.values = list(found.values())
        self.first: dict[str, int] = {}
        for entry, key in enumerate(self.keys):
            self.first.setdefault(key, entry)

    def where(self, entry: int) -> str:
        """Name an entry as messages do."""
        return f"{self.path}, image {self.keys[entry]!r}"

    def check_key(self, entry: int) -> None:
        """Check that an entry's key can be used.

        Raises:
            InputError: if it is neither a whole number nor text, blank, or a duplicate.
        """
        raw, key = self._raw[entry], self.keys[entry]
        if type(raw) not in (int, str) or key != str(raw) or not key.strip():
            raise InputError(f"{self.where(entry)}: image key: expected a number or text")
        if self.first[key] != entry:
            raise InputError(f"{self.where(entry)}: image key: it appears as number and as text")


def _load(path: Path, length: int) -> Any:
    import torch

    try:
        mappable = zipfile.is_zipfile(path)
        if mappable:
            _check_archive(path, length)
        elif _begins_as_archive(path):
            raise InputError(f"{path} is cut short: the end of the archive is missing")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mappable)
    except InputError:
        raise
    except Exception as error:  # anything may come out of a damaged file
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged, or holds more than tensors, text and numbers, which is not "
            f"loaded as that may run code ({reason})"
        ) from error


def _check_archive(path: Path, length: int) -> None:
    """Check what an archive states of its entries: PyTorch stores them one by one, uncompressed."""
    with zipfile.ZipFile(path) as file:
        entries = file.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise InputError(f"{path}: it is compressed, which PyTorch's files are not")
    if sum(entry.file_size for entry in entries) > length:
        raise InputError(f"{path}: it states more bytes than it has")


def _begins_as_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(ARCHIVE)) == ARCHIVE


def _kind(found: object) -> str:
    return "an empty one" if found == {} else type(found).__name__


def _readable(key: object) -> str:
    return str(key).encode(errors="backslashreplace").decode()
