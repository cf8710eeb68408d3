"""NumPy's files, `.npy` and `.npz`, read without unpickling and without trust in their sizes."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.readers.base import check_read, check_size, unreadable

FLOATS, INTEGERS = "f", "iu"  # as numpy.dtype.kind spells them
KINDS = {"float": FLOATS, "str": "US"}
ZIP = b"PK"  # the first bytes of an archive
MAGIC = b"\x93NUMPY"
MEMBER = ".npy"  # of the members of an archive


@dataclass(frozen=True)
class Header:
    """What the head of a `.npy` states."""

    shape: tuple[int, ...]
    dtype: np.dtype
    columns_first: bool
    offset: int

    @classmethod
    def read(cls, file: IO[bytes]) -> Header:
        """Read it from the start of a file."""
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        version = npy.read_magic(file)
        if version not in readers:
            raise ValueError(f"version {version} of the format")
        shape, columns_first, dtype = readers[version](file)
        if min(shape, default=0) < 0:
            raise ValueError(f"shape {shape}")
        return cls(shape, dtype, columns_first, file.tell())

    @property
    def size(self) -> int:
        """Bytes of the entries."""
        return prod(self.shape) * self.dtype.itemsize

    def check_end(self, end: int) -> None:
        """Raise ValueError if a file ends before the entries do."""
        if self.offset + self.size > end:
            raise ValueError(
                f"{self.dtype} {list(self.shape)} takes {self.size:,} bytes, and it has "
                f"{end - self.offset:,}"
            )

    def array(self, content: bytes) -> NDArray[np.number]:
        """The array of these bytes; ValueError if they are fewer."""
        entries = np.frombuffer(content, self.dtype, prod(self.shape))
        return entries.reshape(self.shape, order="F" if self.columns_first else "C")


class ArrayFile:
    """A `.npy` whose rows are read when they are requested."""

    def __init__(self, path: Path, axes: tuple[int, ...], kind: Literal["float", "str"]) -> None:
        self._path = path
        self._header = header = _open_header(path, kind)
        self.shape = header.shape
        if len(self.shape) not in axes or header.dtype.kind not in KINDS[kind]:
            wanted = " or ".join(map(str, axes))
            raise InputError(
                f"{path}: expected {kind} with {wanted} axes, found {header.dtype} "
                f"{list(self.shape)}"
            )

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, row: int) -> NDArray[np.number]:
        """One row, without the first axis."""
        if self._header.columns_first:
            found: NDArray[np.number] = self.whole[row]
            return found
        shape, dtype = self.shape[1:], self._header.dtype
        size = prod(shape) * dtype.itemsize
        content = self._read(self._header.offset + row * size, size, f"{self._path}, row {row + 1}")
        return np.frombuffer(content, dtype).reshape(shape)

    @cached_property
    def whole(self) -> NDArray[np.number]:
        """All rows, as those in Fortran's order have to be read."""
        header, where = self._header, f"{self._path}, read as a whole"
        return header.array(self._read(header.offset, header.size, where))

    def _read(self, start: int, size: int, where: str) -> bytes:
        check_size(size, where)
        try:
            with self._path.open("rb") as file:
                file.seek(start)
                content = file.read(size)
        except OSError as error:
            raise unreadable(self._path, error) from error
        check_read(len(content), size, where)
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
        raise unreadable(path, error) from error
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        raise InputError(f"{path} is damaged or no .npy file: {first_line(error)}") from error
    if header.dtype.hasobject:
        raise InputError(
            f"{path} holds Python objects, and loading those may run code. If you trust the "
            f"file, convert it once: numpy.save({str(path)!r}, "
            f"numpy.load({str(path)!r}, allow_pickle=True).astype({kind!r}))"
        )
    return header


def array_names(path: Path) -> set[str]:
    """Names of the arrays in an archive, none where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as file:
            return {name.removesuffix(MEMBER) for name in file.namelist()}
    except Exception:  # a damaged archive fails in many ways
        return set()


class Arrays:
    """Some arrays of one `.npz`; others are not touched."""

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.where = str(path)
        try:
            with zipfile.ZipFile(path) as file:
                present = set(file.namelist())
                self._arrays = {
                    name: _read_member(file, name + MEMBER, f"{path}: {name}")
                    for name in names
                    if name + MEMBER in present
                }
        except InputError:
            raise
        except OSError as error:
            raise unreadable(path, error) from error
        except Exception as error:  # as in `array_names`
            raise InputError(f"{path} is damaged or no .npz file: {first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def like(self, kinds: str, axes: int) -> dict[str, NDArray[np.number]]:
        """The arrays whose dtype is of some kinds, with so many axes."""
        arrays = self._arrays.items()
        return {n: one for n, one in arrays if one.dtype.kind in kinds and one.ndim == axes}

    def get(self, name: str, kinds: str, shape: tuple[int | None, ...] = ()) -> NDArray[np.number]:
        """An array whose dtype is of some kinds (as NumPy's letters name them) and of a shape."""
        if name not in self:
            raise InputError(f"{self.where}: {name}: missing")
        array = self._arrays[name]
        if array.dtype.kind in kinds:
            sides = zip(array.shape, shape, strict=False)
            if array.ndim == len(shape) and all(side in (found, None) for found, side in sides):
                return array
        wanted = f"{'float' if kinds == FLOATS else 'integer'} {list(shape)}".replace("None", "any")
        raise InputError(
            f"{self.where}: {name}: expected {wanted}, found {array.dtype} {list(array.shape)}"
        )

    def number(self, name: str) -> int:
        """A whole number above 0 that a store can hold."""
        value, largest = int(self.get(name, INTEGERS)), np.iinfo(np.int32).max
        if not 0 < value <= largest:
            limit = "1 or more" if value < 1 else f"at most {largest}"
            raise InputError(f"{self.where}: {name}: expected {limit}, found {value}")
        return value


def _read_member(archive: zipfile.ZipFile, name: str, where: str) -> NDArray[np.number]:
    """An array of an archive; sizes are compared before anything is unpacked."""
    info = archive.getinfo(name)
    try:
        with archive.open(info) as file:
            header = Header.read(file)
            if header.dtype.hasobject:
                raise ValueError("it holds Python objects")
            header.check_end(info.file_size)
            check_size(header.size, where)
            return header.array(file.read(header.size))
    except InputError:
        raise
    except Exception as error:  # as in `array_names`
        raise ValueError(f"{name}: {first_line(error)}") from error
