"""Arrays computed once, some rows at a time, and kept as files that a later run maps."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

Report = Callable[[int, int], None]  # rows done and in all


class Rows(NamedTuple):
    """An array to compute.

    Attributes:
        name: of the array.
        key: everything that decides its content.
        shape: [rows, …].
        dtype: of its numbers.
        blocks: yields the rows from a given one on, some at a time.
    """

    name: str
    key: Iterable[str]
    shape: tuple[int, ...]
    dtype: DTypeLike
    blocks: Callable[[int], Iterator[NDArray[Any]]]


def cached_rows(folder: Path, rows: Rows, report: Report) -> NDArray[Any]:
    """The array, memory-mapped and read-only; computed first where the folder lacks it.

    Rows are appended to a file that is renamed when it is whole: an interrupted computation goes
    on behind the last whole row.

    Args:
        folder: of the files.
        rows: the array.
        report: called after each block.
    """
    content = "\n".join([rows.name, str(rows.shape), str(np.dtype(rows.dtype)), *rows.key])
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    path = folder / f"{rows.name}-{digest}.bin"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        _append(part, rows, report)
        part.replace(path)
    return np.memmap(path, rows.dtype, mode="r", shape=rows.shape)


def _append(part: Path, rows: Rows, report: Report) -> None:
    size = prod(rows.shape[1:]) * np.dtype(rows.dtype).itemsize
    with part.open("ab") as file:
        done = file.tell() // size
        file.truncate(done * size)
        for block in rows.blocks(done):
            file.write(np.ascontiguousarray(block, rows.dtype).tobytes())
            file.flush()
            done += len(block)
            report(done, rows.shape[0])
        os.fsync(file.fileno())
