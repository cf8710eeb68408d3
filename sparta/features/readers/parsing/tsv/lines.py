"""Tab-separated files as the TSV data sets of detectors have them: one image a line."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from sparta.errors import InputError
from sparta.features.readers.parsing.memory_limit import check_size
from sparta.features.readers.parsing.tsv.line_offsets import line_offsets

HEAD = 4096  # bytes of a line that contain its key


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
