"""Region features in the `.pt` dictionaries of Oscar's first version."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.readers.base import check_length, check_size, file_length
from sparta.readers.keyed_files import KeyedFile
from sparta.readers.labels import OBJECTS, LabelledObjects, parse
from sparta.readers.oscar import LOCATION, OscarPart

FEATURES = "_feats.pt"  # ends of names
LABELS = "_labels.pt"
JSON = ("[", "{")  # what it begins with
KIND = "_img_"  # parts the split from the rest of the name of features

log = logging.getLogger(__name__)
ARCHIVE = b"PK"  # the first bytes of one


def fits_pt(path: Path) -> bool:
    """Whether a path looks like one of these files, or a folder of them."""
    if path.is_dir():
        return any(path.glob(f"*{FEATURES}"))
    return path.name.endswith((FEATURES, LABELS))


def open_pt(paths: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The parts of files of features, or folders with them, and of files of labels.

    Labels need a name only where there are several files of a split.
    """
    features, labels = _sorted_out(paths)
    return [_Dictionaries(path, _labels_of(path, labels), above) for path in features]


class _Dictionaries(OscarPart):
    """Two dictionaries from image keys; sizes of photos are unknown.

    `SPLIT_img_KIND_feats.pt` has [n, d + 6] floats, a location at each row's end;
    `SPLIT_KIND_labels.pt` beside it a list of objects, that list as a JSON string, or one string
    with all labels. The last describes the whole photo and goes to its largest region.

    Files are mapped into memory, and their size is checked before an image is read; those written
    by PyTorch before 1.6 cannot be mapped, and are loaded as a whole.
    """

    def __init__(self, features: Path, labels: Path | None, above: float) -> None:
        self._above = above
        self._features = PtDictionary(features)
        self._labels = None if labels is None else PtDictionary(labels)
        files = [features] if labels is None else [features, labels]
        super().__init__(self._features, self._labels, files)

    def width(self, entry: int) -> int:
        return int(self._rows(entry).shape[1])

    def values(self, entry: int, width: int) -> NDArray[np.floating[Any]]:
        rows = self._rows(entry)
        if rows.shape[1] != width:
            raise InputError(
                f"{self._features.where(entry)}: features: expected rows of {width} numbers, "
                f"found {rows.shape[1]}"
            )
        return rows

    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        if self._labels is None or entry is None:
            return LabelledObjects(), self._features.where(self._features.first[key])
        found, where = self._labels.values[entry], self._labels.where(entry)
        if isinstance(found, str) and not found.lstrip().startswith(JSON):
            return LabelledObjects((_checked(found, where),), ("",)), where
        if isinstance(found, str):
            objects = parse(OBJECTS, _checked(found, where).encode(), f"{where}: labels")
        else:
            objects = parse(OBJECTS, found, where, "objects")
        for each in objects:
            _checked(" ".join([each.label, *each.attributes]), where)
        return LabelledObjects.of(objects, 0, 0, where, self._above), where

    def _rows(self, entry: int) -> NDArray[np.floating[Any]]:
        import torch

        found, where = self._features.values[entry], f"{self._features.where(entry)}: features"
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
        check_length(self._features.path, self._features.length)
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


class PtDictionary(KeyedFile):
    """A dictionary by image keys that `torch.save` wrote, with entries in its order.

    Keys are strings: 7 and "7" are one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.length = file_length(path)
        found = _load(path, self.length)
        if not isinstance(found, dict) or not found:
            kind = "an empty one" if found == {} else type(found).__name__
            raise InputError(f"{path}: expected a dictionary by image keys, found {kind}")
        super().__init__([str(key).encode(errors="backslashreplace").decode() for key in found])
        self._raw = list(found)
        self.values = list(found.values())

    def where(self, entry: int) -> str:
        """Name an entry as messages do."""
        return f"{self.path}, image {self.keys[entry]!r}"

    def check_key(self, entry: int) -> None:
        """Raise InputError if a key is neither a whole number nor text, blank, or a duplicate."""
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
        else:
            with path.open("rb") as file:
                if file.read(len(ARCHIVE)) == ARCHIVE:
                    raise InputError(f"{path} is cut short: the end of the archive is missing")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mappable)
    except InputError:
        raise
    except Exception as error:  # anything may come out of a damaged file
        reason = first_line(error)[:200] or type(error).__name__
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
