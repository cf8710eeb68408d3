"""Where the lines of a large text file start."""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

BLOCK = 1 << 20  # bytes that are searched at a time


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
