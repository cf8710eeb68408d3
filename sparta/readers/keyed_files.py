"""Files with an entry for each image's key, TSVs above all, and images whose parts are in two."""

from __future__ import annotations

import base64
import binascii
import os
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.readers.base import check_read, check_size, unreadable

HEAD = 4096  # bytes of a line that contain its key
BLOCK = 1 << 20  # bytes that are searched at a time
DIGITS = 9  # of a number at most: a store holds widths and heights as int32


class KeyedFile(ABC):
    """A file with one entry for each image."""

    path: Path

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = keys  # of the images, entry by entry; duplicates included
        self.first: dict[str, int] = {}  # the first entry of each key
        for entry, key in enumerate(keys):
            self.first.setdefault(key, entry)

    def __len__(self) -> int:
        return len(self.keys)

    @abstractmethod
    def where(self, entry: int) -> str:
        """Name an entry, for messages."""

    @abstractmethod
    def check_key(self, entry: int) -> None:
        """Raise InputError if the entry's key cannot be used, or is a duplicate."""


class Pairs:
    """Images of one or more pairs of files, by row in order of their ids.

    An image that is in only one of the files, and a duplicate, is a row too; reading it raises.
    """

    def __init__(
        self, features: Sequence[KeyedFile], labels: Sequence[KeyedFile | None], image_suffix: str
    ) -> None:
        self._files = list(zip(features, labels, strict=True))
        # Image id, part, entries of features and of labels.
        rows: list[tuple[str, int, int | None, int | None]] = []
        for part, (own, file) in enumerate(self._files):
            for entry, key in enumerate(own.keys):
                rows.append(
                    (key + image_suffix, part, entry, file.first.get(key) if file else None)
                )
            for entry, key in enumerate(file.keys if file else ()):
                if file and (key not in own.first or file.first[key] != entry):
                    rows.append((key + image_suffix, part, None, entry))
        # Those without features come behind those of the same id that have them.
        self._rows = sorted(rows, key=lambda row: (row[0], row[2] is None))
        self.ids: Sequence[str] = [row[0] for row in self._rows]

    def __getitem__(self, row: int) -> tuple[str, int, int, int | None]:
        """Of a row the image's id, the number of its pair, and its entries in the two files."""
        image_id, part, entry, label_entry = self._rows[row]
        features, labels = self._files[part]
        if entry is None:
            assert labels is not None and label_entry is not None
            labels.check_key(label_entry)
            raise _missing(labels, label_entry, features)
        features.check_key(entry)
        if row and self.ids[row - 1] == image_id:
            _, before, first, _ = self._rows[row - 1]
            assert first is not None  # those without features come behind
            raise InputError(
                f"{features.where(entry)}: image {features.keys[entry]!r} was already in "
                f"{self._files[before][0].where(first)}"
            )
        if labels is not None and label_entry is None:
            raise _missing(features, entry, labels)
        return image_id, part, entry, label_entry


def _missing(file: KeyedFile, entry: int, other: KeyedFile) -> InputError:
    return InputError(f"{file.where(entry)}: image {file.keys[entry]!r} is not in {other.path}")


# ---- TSVs ----------------------------------------------------------------------------------------


class TsvFile(KeyedFile):
    """Lines of a TSV by number; the first cell of each is the image's key.

    A line is read when it is requested. The file is not mapped into memory: reading a map of a
    file that was cut short meanwhile would end the process. Bytes of a key that are not UTF-8 are
    escaped in `keys`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._undecodable: set[int] = set()
        try:
            with path.open("rb", buffering=0) as file:
                self._offsets = line_offsets(file, path)
                super().__init__(self._read_keys(file))
        except OSError as error:
            raise unreadable(path, error) from error

    def where(self, entry: int) -> str:
        """Name a line (counted from 0) as messages do, counted from 1."""
        return f"{self.path}, line {entry + 1}"

    def cells(self, line: int, names: Sequence[str]) -> list[bytes]:
        """The stripped cells of a line.

        Raises InputError if the key is blank, not UTF-8 or in an earlier line too, there are more
        or fewer cells than names, or the file has changed since it was opened.
        """
        self.check_key(line)
        cells = [cell.strip() for cell in self._read(line).split(b"\t")]
        if cells[0] != self.keys[line].encode():
            raise InputError(f"{self.where(line)}: the file has changed while it was read")
        if len(cells) != len(names):
            raise InputError(
                f"{self.where(line)}: expected {len(names)} columns ({', '.join(names)}), "
                f"found {len(cells)}"
            )
        return cells

    def check_key(self, entry: int) -> None:
        """Raise InputError if the key is blank, not UTF-8 or in an earlier line too."""
        key = self.keys[entry]
        if not key:
            raise InputError(f"{self.where(entry)}: image key: it is blank")
        if entry in self._undecodable:
            raise InputError(f"{self.where(entry)}: image key: not UTF-8")
        if self.first[key] != entry:
            first = self.where(self.first[key])
            raise InputError(f"{self.where(entry)}: image {key!r} was already in {first}")

    def _read_keys(self, file: BinaryIO) -> list[str]:
        keys = []
        for line, (start, end) in enumerate(pairwise(self._offsets)):
            # A key is short; where the tab is missing, the line may be the whole file.
            head = os.pread(file.fileno(), min(HEAD, end - start), start)
            key = head.split(b"\t", 1)[0].strip()
            keys.append(key.decode(errors="backslashreplace"))
            if keys[-1].encode() != key:
                self._undecodable.add(line)
        return keys

    def _read(self, line: int) -> bytes:
        start, end = self._offsets[line], self._offsets[line + 1]
        check_size(end - start, self.where(line))
        try:
            with self.path.open("rb", buffering=0) as file:
                text = os.pread(file.fileno(), end - start, start)
        except OSError as error:
            raise unreadable(self.path, error) from error
        check_read(len(text), end - start, self.where(line), "of the line ")
        return text


def line_offsets(file: BinaryIO, path: Path) -> list[int]:
    """The offset of each line, and behind them the end of the last one.

    A byte order mark at the start and empty lines at the end belong to no line.
    """
    first = len(BOM_UTF8) if os.pread(file.fileno(), len(BOM_UTF8), 0) == BOM_UTF8 else 0
    end = os.fstat(file.fileno()).st_size
    found = [first]
    for start in range(first, end, BLOCK):
        block = os.pread(file.fileno(), min(BLOCK, end - start), start)
        feed = block.find(b"\n")
        while feed >= 0:
            found.append(start + feed + 1)
            feed = block.find(b"\n", feed + 1)
    if found[-1] < end:
        found.append(end)
    while len(found) > 1 and not os.pread(file.fileno(), HEAD, found[-2]).strip(b"\r\n"):
        found.pop()
    if len(found) == 1:
        raise InputError(f"{path} is empty")
    return found


class Cells:
    """The cells of one line by name: whole numbers, and arrays in base64."""

    def __init__(self, file: TsvFile, line: int, names: Sequence[str]) -> None:
        self.where = file.where(line)
        self._cells = dict(zip(names, file.cells(line, names), strict=True))

    def number(self, name: str) -> int:
        """A whole number above 0."""
        cell = self._cells[name]
        many = cell.isdigit() and len(cell) > DIGITS
        number = int(cell) if cell.isdigit() and not many else 0
        if not number:
            found = cell[:20].decode(errors="replace")
            limit = f"at most {10**DIGITS - 1}" if many else "1 or more"
            raise InputError(f"{self.where}: {name}: expected {limit}, found {found!r}")
        return number

    def payload(self, name: str) -> bytes:
        """The bytes of a cell in base64, which some programs write as b'…', quotes and all."""
        cell = self._cells[name]
        if cell[:2] in (b"b'", b'b"'):
            cell = cell[2:-1]
        return decode(cell, f"{self.where}: {name}")

    def rows(
        self, name: str, dtype: str, count: int, width: int | None = None
    ) -> NDArray[np.number]:
        """An array in base64, [count, width]; a width of None is what there is."""
        payload = self.payload(name)
        size = np.dtype(dtype).itemsize
        found, rest = divmod(len(payload), size * count)
        if rest or found != (width or max(found, 1)):
            raise InputError(
                f"{self.where}: {name}: expected {count} rows of {width or 'equally many'} numbers "
                f"of {size} bytes, found {len(payload)} bytes"
            )
        return np.frombuffer(payload, dtype).reshape(count, found)


def decode(text: bytes | str, where: str) -> bytes:
    """The bytes of a base64 text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        reason = str(error) if isinstance(error, binascii.Error) else "it is not ASCII"
        raise InputError(f"{where}: not base64 ({reason}); the line may be cut") from error
