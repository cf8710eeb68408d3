"""NumPy's files (`.npy`)."""

from __future__ import annotations

from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.features.readers.parsing.arrays.header import Header
from sparta.features.readers.parsing.memory_limit import check_size

KINDS = {"float": "f", "str": "US"}  # as numpy.dtype.kind spells them
ZIP = b"PK"  # the first bytes of an archive
MAGIC = b"\x93NUMPY"


class ArrayFile:
    """A `.npy` whose rows are read when they are requested.

    Args:
        path: the file.
        axes: the numbers of axes it may have.
        kind: of its entries.

    Attributes:
        path: the file.
        shape: of the array.
        dtype: of its entries.

    Raises:
        InputError: if it is absent, cut, of other axes or kind, or holds Python objects.
    """

    def __init__(self, path: Path, axes: tuple[int, ...], kind: Literal["float", "str"]) -> None:
        self.path = path
        self._header = header = _open_header(path, kind)
        self.shape, self.dtype = header.shape, header.dtype
        if len(self.shape) not in axes or self.dtype.kind not in KINDS[kind]:
            wanted = " or ".join(map(str, axes))
            raise InputError(
                f"{path}: expected {kind} with {wanted} axes, found {self.dtype} {list(self.shape)}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> NDArray[Any]:
        """One row, without the first axis.

        Raises:
            InputError: if it is too large, or the file was cut short since it was opened.
        """
        if self._header.columns_first:
            found: NDArray[Any] = self.whole[row]
            return found
        shape = self.shape[1:]
        size = prod(shape) * self.dtype.itemsize
        content = self._read(self._header.offset + row * size, size, f"{self.path}, row {row + 1}")
        return np.frombuffer(content, self.dtype).reshape(shape)

    @cached_property
    def whole(self) -> NDArray[Any]:
        """All rows, as those in Fortran's order have to be read.

        Raises:
            InputError: as for a single one.
        """
        header = self._header
        return header.array(self._read(header.offset, header.size, f"{self.path}, read as a whole"))

    def _read(self, start: int, size: int, where: str) -> bytes:
        check_size(size, where)
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                content = file.read(size)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}") from error
        if len(content) < size:
            raise InputError(
                f"{where}: the file was cut short while it was read: "
                f"{size - len(content):,} bytes are missing"
            )
        return content


def _open_header(path: Path, kind: str) -> Header:
    """The header of a `.npy`, of entries that are all there."""
    try:
        with path.open("rb") as file:
            magic = file.read(len(MAGIC))
            if magic.startswith(ZIP):
                raise InputError(f"{path} is an .npz, expected an .npy")
            if magic != MAGIC:
                raise InputError(f"{path} is damaged or no .npy file")
            file.seek(0)
            header = Header.read(file)
            if not header.dtype.hasobject:
                header.check_end(path.stat().st_size)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        raise InputError(f"{path} is damaged or no .npy file: {first_line(error)}") from error
    if header.dtype.hasobject:
        raise InputError(
            f"{path} holds Python objects, and loading those may run code. If you trust the "
            f"file, convert it once: numpy.save({str(path)!r}, "
            f"numpy.load({str(path)!r}, allow_pickle=True).astype({kind!r}))"
        )
    return header
