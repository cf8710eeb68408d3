"""Dictionaries by image that `torch.save` wrote, of which nothing is run."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparta.errors import InputError
from sparta.features.readers.parsing.file_length import FileLength

ARCHIVE = b"PK"  # the first bytes of one


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
