"""Tab-separated files as the TSV data sets of detectors have them: one image a line."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.memory_limit import check_size

HEAD = 4096  # bytes of a line that contain its key
BLOCK = 1 << 20  # bytes that are searched at a time


class TsvFile:
    """Lines of a TSV by number; the first cell of each is the image's key.

    A line is read when it is requested. The file is not mapped into memory: reading a map of a
    file that was cut short meanwhile would end the process.

    Attributes:
        path: the file.
        keys: the first cell of each line; bytes that are not UTF-8 are escaped.
        first: the first line of each key.

    Raises:
        InputError: if the file is absent or empty, or its `.lineidx` is of another file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._undecodable: set[int] = set()
        try:
            with path.open("rb", buffering=0) as file:
                self._offsets = line_offsets(file, path)
                self.keys: Sequence[str] = self._read_keys(file)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from error
        self.first: dict[str, int] = {}
        for line, key in enumerate(self.keys):
            self.first.setdefault(key, line)

    def __len__(self) -> int:
        return len(self.keys)

    def where(self, line: int) -> str:
        """Name a line (counted from 0) as messages do, counted from 1."""
        return f"{self.path}, line {line + 1}"

    def cells(self, line: int, names: Sequence[str]) -> list[bytes]:
        """The stripped cells of a line.

        Raises:
            InputError: if the key is blank, not UTF-8 or in an earlier line too, there are more or
                fewer cells than names, or the file has changed since it was opened.
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

    def check_key(self, line: int) -> None:
        """Check that the key of a line can be used.

        Raises:
            InputError: if it is blank, not UTF-8 or in an earlier line too.
        """
        key = self.keys[line]
        if not key:
            raise InputError(f"{self.where(line)}: image key: it is blank")
        if line in self._undecodable:
            raise InputError(f"{self.where(line)}: image key: not UTF-8")
        if self.first[key] != line:
            first = self.where(self.first[key])
            raise InputError(f"{self.where(line)}: image {key!r} was already in {first}")

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
            raise InputError(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(text) < end - start:
            raise InputError(
                f"{self.where(line)}: the file was cut short while it was read: "
                f"{end - start - len(text):,} bytes of the line are missing"
            )
        return text


def line_offsets(file: BinaryIO, path: Path) -> list[int]:
    """The offset of each line, and behind them that of the end of the last.

    A byte order mark at the start and empty lines at the end belong to no line. Offsets are read
    from the file's `.lineidx` (one number a line), and searched for if there is none.

    Args:
        file: opened to be read.
        path: its path.

    Raises:
        InputError: if the file has no line, or the `.lineidx` is of another file.
        OSError: if it cannot be read.
    """
    first = len(BOM_UTF8) if os.pread(file.fileno(), len(BOM_UTF8), 0) == BOM_UTF8 else 0
    end = _end_of_text(file)
    if end <= first:
        raise InputError(f"{path} is empty")
    index = path.with_suffix(".lineidx")
    if not index.exists():
        return [first, *_after_line_feeds(file, first, end), end]
    found = _read_index(index)
    found = found[found < end]
    if len(found) and found[0] == 0:
        found[0] = first
    if not _are_starts(file, found, first, end):
        raise InputError(
            f"{index} is not the index of {path.name}: its offsets are not where lines start; "
            "delete it, it will be done without"
        )
    return [*found.tolist(), end]


def _end_of_text(file: BinaryIO) -> int:
    """The end of the last line that is not empty."""
    end = os.fstat(file.fileno()).st_size
    while end:
        start = max(0, end - BLOCK)
        text = os.pread(file.fileno(), end - start, start).rstrip(b"\r\n")
        if text:
            return start + len(text)
        end = start
    return 0


def _after_line_feeds(file: BinaryIO, start: int, end: int) -> list[int]:
    """Offsets behind the line feeds of a part of the file."""
    found = []
    for offset in range(start, end, BLOCK):
        block = os.pread(file.fileno(), min(BLOCK, end - offset), offset)
        position = block.find(b"\n")
        while position >= 0:
            found.append(offset + position + 1)
            position = block.find(b"\n", position + 1)
    return found


def _read_index(path: Path) -> NDArray[np.int64]:
    try:
        return np.array(path.read_bytes().removeprefix(BOM_UTF8).split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: expected one byte offset a line: {error}") from error


def _are_starts(file: BinaryIO, starts: NDArray[np.int64], first: int, end: int) -> bool:
    if not len(starts) or starts[0] != first or (np.diff(starts) <= 0).any():
        return False
    before = (os.pread(file.fileno(), 1, start - 1) for start in starts[1:].tolist())
    # The last line must also be the file's last.
    return all(byte == b"\n" for byte in before) and not _after_line_feeds(
        file, int(starts[-1]), end
    )
