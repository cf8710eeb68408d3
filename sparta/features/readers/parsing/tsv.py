"""Tab-separated files as the TSV data sets of detectors have them: one image a line."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError


class TsvFile:
    """Lines of a memory-mapped TSV by number; the first cell of each is the image's key.

    The offsets of lines are read from the file's `.lineidx` (byte offsets, one number a
    line), and searched for if there is none.

    Attributes:
        path: the file.
        keys: the first cell of each line; bytes that are not UTF-8 are escaped.
        first: the first line of each key.

    Raises:
        InputError: if the file is absent or empty, or the `.lineidx` is of another file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise InputError(f"{path} is empty") from error
        self._starts = self._read_starts()
        self.keys: Sequence[str] = [self._key(line) for line in range(len(self._starts))]
        self.first: dict[str, int] = {}
        for line, key in enumerate(self.keys):
            self.first.setdefault(key, line)

    def __len__(self) -> int:
        return len(self._starts)

    def where(self, line: int) -> str:
        """Name a line (counted from 0) as messages do, counted from 1."""
        return f"{self.path}, line {line + 1}"

    def cells(self, line: int, names: Sequence[str]) -> list[bytes]:
        """The stripped cells of a line.

        Raises:
            InputError: if the key is blank, not UTF-8 or in an earlier line too, or there are
                more or fewer cells than names.
        """
        self.check_key(line)
        end = self._starts[line + 1] if line + 1 < len(self) else len(self._bytes)
        cells = self._bytes[self._starts[line] : end].split(b"\t")
        if len(cells) != len(names):
            raise InputError(
                f"{self.where(line)}: expected {len(names)} columns ({', '.join(names)}), "
                f"found {len(cells)}"
            )
        return [cell.strip() for cell in cells]

    def _key(self, line: int) -> str:
        return self._key_bytes(line).decode(errors="backslashreplace")

    def _key_bytes(self, line: int) -> bytes:
        start = self._starts[line]
        # A key is short; where the tab is missing, the whole rest of the file would be searched.
        head = self._bytes[start : start + 4096]
        return head.split(b"\n", 1)[0].split(b"\t", 1)[0].strip()

    def check_key(self, line: int) -> None:
        """Check that the key of a line can be used.

        Raises:
            InputError: if it is blank, not UTF-8 or in an earlier line too.
        """
        key = self.keys[line]
        if not key:
            raise InputError(f"{self.where(line)}: image key: it is blank")
        if key.encode() != self._key_bytes(line):
            raise InputError(f"{self.where(line)}: image key: not UTF-8")
        if self.first[key] != line:
            first = self.where(self.first[key])
            raise InputError(f"{self.where(line)}: image {key!r} was already in {first}")

    def _read_starts(self) -> list[int]:
        path = self.path.with_suffix(".lineidx")
        if not path.exists():
            return self._find_starts()
        try:
            starts: NDArray[np.int64] = np.array(path.read_bytes().split(), np.int64)
        except (ValueError, OverflowError) as error:
            raise InputError(f"{path}: expected one byte offset a line: {error}") from error
        if not self._are_starts(starts):
            raise InputError(
                f"{path} is not the index of {self.path.name}: its offsets are not where lines "
                "start; delete it, it will be done without"
            )
        return [int(start) for start in starts]

    def _find_starts(self) -> list[int]:
        starts = [0]
        while end := self._bytes.find(b"\n", starts[-1]) + 1:
            starts.append(end)
        if starts[-1] == len(self._bytes):
            starts.pop()
        return starts

    def _are_starts(self, starts: NDArray[np.int64]) -> bool:
        if not len(starts) or starts[0] != 0 or (np.diff(starts) <= 0).any():
            return False
        if starts[-1] >= len(self._bytes):
            return False
        # The last line must also be the file's last.
        after_last = self._bytes.find(b"\n", int(starts[-1])) + 1
        return after_last in (0, len(self._bytes)) and all(
            self._bytes[start - 1] == ord("\n") for start in starts[1:].tolist()
        )
