"""Dictionaries by image that `torch.save` wrote, of which nothing is run."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparta.errors import InputError


class PtDictionary:
    """A dictionary by image keys that `torch.save` wrote, with entries in its order.

    Attributes:
        path: the file.
        keys: of the images, as strings.
        first: the first entry of each key: 7 and "7" are one.
        values: entry by entry.

    Raises:
        InputError: if the file cannot be read, holds more than tensors, text and numbers, or no
            dictionary.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        found = _load(path)
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


def _load(path: Path) -> Any:
    import torch

    try:
        mappable = zipfile.is_zipfile(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mappable)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # anything may come out of a damaged file
        reason = str(error).strip().split("\n")[0][:200] or type(error).__name__
        raise InputError(
            f"{path} is damaged, or holds more than tensors, text and numbers, which is not "
            f"loaded as that may run code ({reason})"
        ) from error


def _kind(found: object) -> str:
    return "an empty one" if found == {} else type(found).__name__


def _readable(key: object) -> str:
    return str(key).encode(errors="backslashreplace").decode()
