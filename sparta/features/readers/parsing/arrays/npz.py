"""NumPy's archives (`.npz`)."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError, first_line
from sparta.features.readers.parsing.arrays.header import Header
from sparta.features.readers.parsing.memory_limit import check_size

FLOATS, INTEGERS = "f", "iu"  # as numpy.dtype.kind spells them
SUFFIX = ".npy"  # of the members of an archive


def array_names(path: Path) -> set[str]:
    """Names of the arrays in an archive, none where it cannot be read."""
    try:
        with zipfile.ZipFile(path) as file:
            return {name.removesuffix(SUFFIX) for name in file.namelist()}
    except Exception:  # a damaged archive fails in many ways
        return set()


class Arrays:
    """Some arrays of one archive; others are not touched.

    Args:
        path: of the archive.
        names: of those to read, if present.

    Attributes:
        where: the file, for messages.

    Raises:
        InputError: if it is damaged, or an array larger than one image's can be.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.where = str(path)
        try:
            with zipfile.ZipFile(path) as file:
                present = set(file.namelist())
                self._arrays = {
                    name: _read_member(file, name + SUFFIX, f"{path}: {name}")
                    for name in names
                    if name + SUFFIX in present
                }
        except InputError:
            raise
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        except Exception as error:  # as in `array_names`
            raise InputError(f"{path} is damaged or no .npz file: {first_line(error)}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def get(self, name: str, kinds: str, shape: tuple[int | None, ...] = ()) -> NDArray[Any]:
        """An array whose dtype is of some kinds (as NumPy's letters name them) and of a shape.

        Raises:
            InputError: if there is none, or of another kind or shape.
        """
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
        """A whole number above 0 that a store can hold.

        Raises:
            InputError: if there is none, or it is something else.
        """
        value, largest = int(self.get(name, INTEGERS)), np.iinfo(np.int32).max
        if not 0 < value <= largest:
            limit = "1 or more" if value < 1 else f"at most {largest}"
            raise InputError(f"{self.where}: {name}: expected {limit}, found {value}")
        return value


def _read_member(archive: zipfile.ZipFile, name: str, where: str) -> NDArray[Any]:
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
