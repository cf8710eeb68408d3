"""Region features of Oscar and VinVL; the TSVs of VinVL, and the `.pt` files of Oscar."""

from __future__ import annotations

import logging
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from sparta.errors import InputError, first_line
from sparta.extras import check_installed
from sparta.features.record import ImageFeatures
from sparta.readers.base import (
    TOLERANCE,
    FeatureReader,
    ImportOptions,
    check_features,
    check_length,
    check_locations,
    check_size,
    file_length,
    parse,
    without_labels,
)
from sparta.readers.keyed_files import Cells, KeyedFile, Pairs, TsvFile
from sparta.readers.labels import (
    ATTRIBUTE_CONFIDENCE,
    OBJECTS,
    LabelledObjects,
    Prediction,
    WordPlacer,
)

LOCATION = 6  # numbers at the end of each row
SAMPLE = 9  # entries whose widths are compared
FEATURES = "features.tsv"
PREDICTIONS = "predictions.tsv"
COLUMNS = ("image key", "number of regions", "features")
PREDICTION = TypeAdapter(Prediction)


class OscarPart(ABC):
    """A file of features, with an entry for each image, and what belongs to it: perhaps labels."""

    def __init__(
        self, features: KeyedFile, labels: KeyedFile | None, files: Sequence[Path]
    ) -> None:
        self.features, self.labels, self.files = features, labels, files

    def width(self, entry: int) -> int:
        """Numbers per row of features, from one entry; InputError if it is malformed."""
        return row_width(*self._payload(entry))

    def values(self, entry: int, width: int) -> NDArray[np.floating]:
        """[n, width], a location at each row's end; InputError if the entry is malformed."""
        return as_rows(*self._payload(entry), width)

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        """Number of regions, the bytes of their rows, and their place in the file."""
        raise NotImplementedError

    @abstractmethod
    def seen(self, key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        """The objects of an image, from an entry of the labels; and their place in the file."""


# The parts of paths, with the confidence above which attributes are used.
OpenParts: TypeAlias = Callable[[Sequence[Path], float], Sequence[OscarPart]]


class OscarReader(FeatureReader):
    """Images of one or more parts.

    Each row of features ends with its location, six numbers: x1/W, y1/H, x2/W, y2/H, w/W, h/H.
    """

    def __init__(
        self, open_parts: OpenParts, paths: Sequence[Path], options: ImportOptions
    ) -> None:
        above = options.limit.attributes_above(ATTRIBUTE_CONFIDENCE)
        self._parts = parts = open_parts(paths, above)
        features, labels = [part.features for part in parts], [part.labels for part in parts]
        self._pairs = Pairs(features, labels, options.image_suffix)
        self._width = self._common_width()
        self._words = WordPlacer(options.limit)
        files = [path for part in parts for path in part.files]
        super().__init__(options, self._width - LOCATION, self._pairs.ids, files)

    def __getitem__(self, row: int) -> ImageFeatures:
        image_id, number, entry, label_entry = self._pairs[row]
        part = self._parts[number]
        where = part.features.where(entry)
        values = part.values(entry, self._width)
        # First: without locations, float32 may have been taken for float16.
        boxes = check_locations(values[:, -LOCATION:], where)
        features = check_features(values[:, :-LOCATION], where)
        seen, seen_where = part.seen(part.features.keys[entry], label_entry)
        image = without_labels(image_id, features, boxes, seen.width, seen.height)
        return self._words.place(image, seen, seen_where)

    def _common_width(self) -> int:
        """Numbers per row that most of the first entries agree on."""
        widths: Counter[int] = Counter()
        first: InputError | None = None
        entries = ((part, row) for part in self._parts for row in range(len(part.features)))
        for part, entry in entries:
            try:
                widths[part.width(entry)] += 1
            except InputError as error:
                first = first or error
            if widths.total() == SAMPLE:
                break
        if not widths:
            raise first or InputError("there are no features")
        return widths.most_common(1)[0][0]


def row_width(count: int, payload: bytes, where: str) -> int:
    """Numbers per row, as far as one payload of unknown float type determines them.

    Published rows have 2,054 numbers, in 4 or 2 bytes each. Other detectors have other widths; the
    type is then seen from the locations: float32 read as float16 has numbers above 1 among them.
    """
    width, rest = divmod(len(payload), 2 * count)
    if not rest and width % 2 == 0:
        ends = np.frombuffer(payload, "<f2").reshape(count, width)[:, -LOCATION:]
        width //= 2 if (ends > 1 + TOLERANCE).any() else 1
    if rest or width <= LOCATION:
        raise InputError(
            f"{where}: {len(payload)} bytes are not {count} rows of more than {LOCATION} floats"
        )
    return width


def as_rows(count: int, payload: bytes, where: str, width: int) -> NDArray[np.floating]:
    """All numbers of a payload as `row_width` takes it: [count, width] float32 or float16."""
    types = {4 * count * width: "<f4", 2 * count * width: "<f2"}
    if len(payload) not in types:
        raise InputError(
            f"{where}: expected {count} rows of {width} numbers, "
            f"{' or '.join(map(str, types))} bytes, found {len(payload)}"
        )
    return np.frombuffer(payload, types[len(payload)]).reshape(count, width)


# ---- VinVL and Oscar+ ----------------------------------------------------------------------------


def fits_vinvl(path: Path) -> bool:
    """Whether a path looks like a folder of `features.tsv` and `predictions.tsv`."""
    return (path / FEATURES).is_file() and (path / PREDICTIONS).is_file()


def open_vinvl(folders: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The parts of some folders."""
    return [_VinvlFolder(folder, above) for folder in folders]


class _VinvlFolder(OscarPart):
    """`features.tsv` and `predictions.tsv`.

    The former has key, number of regions n, and base64 of n rows of little-endian floats, the last
    six of each its location; the latter key and JSON of `image_h`, `image_w` and the regions'
    `objects`, or of the objects alone: the photo's size is then unknown. The indexes of lines
    beside them, `.lineidx` and `imageid2idx.json`, are not needed.
    """

    def __init__(self, folder: Path, above: float) -> None:
        self._above = above
        self._features, self._labels = TsvFile(folder / FEATURES), TsvFile(folder / PREDICTIONS)
        files = [self._features.path, self._labels.path]
        super().__init__(self._features, self._labels, files)

    def seen(self, _key: str, entry: int | None) -> tuple[LabelledObjects, str]:
        assert entry is not None
        where = self._labels.where(entry)
        _, text = self._labels.cells(entry, ("image key", "JSON"))
        if text.startswith(b"["):
            # Oscar takes such photos for 800 x 600; what it needs of that, the locations, is here.
            objects = parse(OBJECTS, text, where)
            return LabelledObjects.of(objects, 0, 0, where, self._above), where
        found = parse(PREDICTION, text, where)
        size = found.image_w, found.image_h
        return LabelledObjects.of(found.objects, *size, where, self._above), where

    def _payload(self, entry: int) -> tuple[int, bytes, str]:
        cells = Cells(self._features, entry, COLUMNS)
        where = f"{cells.where}: features"
        return cells.number(COLUMNS[1]), cells.payload(COLUMNS[2]), where


# ---- the dictionaries of Oscar's first version ---------------------------------------------------

PT_FEATURES = "_feats.pt"  # ends of names
PT_LABELS = "_labels.pt"
JSON = ("[", "{")  # what it begins with
KIND = "_img_"  # parts the split from the rest of the name of features

log = logging.getLogger(__name__)
ARCHIVE = b"PK"  # the first bytes of one


def fits_pt(path: Path) -> bool:
    """Whether a path looks like one of these files, or a folder of them."""
    if path.is_dir():
        return any(path.glob(f"*{PT_FEATURES}"))
    return path.name.endswith((PT_FEATURES, PT_LABELS))


def open_pt(paths: Sequence[Path], above: float) -> Sequence[OscarPart]:
    """The parts of files of features, or folders with them, and of files of labels.

    Labels need a name only where there are several files of a split.
    """
    features, labels = _sorted_out(paths)
    check_installed("train", "torch")
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

    def values(self, entry: int, width: int) -> NDArray[np.floating]:
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

    def _rows(self, entry: int) -> NDArray[np.floating]:
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
        found = sorted(path.glob(f"*{PT_FEATURES}")) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path} holds no file whose name ends with {PT_FEATURES}")
        files += found
    for path in files:
        if not path.name.endswith((PT_FEATURES, PT_LABELS)):
            raise InputError(f"{path}: expected a name that ends with {PT_FEATURES} or {PT_LABELS}")
    features = [path for path in files if path.name.endswith(PT_FEATURES)]
    labels = [path for path in files if path.name.endswith(PT_LABELS)]
    for path in labels:
        if not any(path.name.startswith(_split(file)) for file in features):
            raise InputError(f"{path}: there are no features of its split; name their file too")
    return features, labels


def _labels_of(features: Path, named: Sequence[Path]) -> Path | None:
    """The label file of a feature file: among those the user named, or in its folder."""
    split = _split(features)
    found = [path for path in named if path.name.startswith(split)]
    found = found or sorted(features.parent.glob(f"{split}*{PT_LABELS}"))
    if len(found) > 1:
        raise InputError(
            f"{features}: there are several files of labels: "
            f"{', '.join(path.name for path in found)}; name one of them after the features"
        )
    if not found:
        log.warning("%s: no %s*%s is beside it: its regions have none", features, split, PT_LABELS)
    return found[0] if found else None


def _split(features: Path) -> str:
    """The split a file's name begins with, such as `train_`."""
    return features.name.split(KIND)[0].removesuffix(PT_FEATURES) + "_"


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
