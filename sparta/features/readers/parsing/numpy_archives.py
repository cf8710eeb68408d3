"""NumPy archives (`.npz`), never unpickled."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing import numpy_files

FLOATS, INTEGERS = "f", "iu"  # as numpy.dtype.kind spells them
# What zipfile raises besides, where bytes have changed.
DAMAGED = (*numpy_files.DAMAGED, RuntimeError, zipfile.BadZipFile, zlib.error)


def array_names(path: Path) -> set[str]:
    """Names of the arrays in an archive, none where it cannot be read."""
    try:
        with path.open("rb") as opened, NpzFile(opened, allow_pickle=False) as file:
            return set(file.files)
    except (OSError, *DAMAGED):
        return set()


class Arrays:
    """Some arrays of one archive; others are not touched.

    Args:
        path: of the archive.
        names: of those to read, where they are there.

    Attributes:
        where: the file, for messages.

    Raises:
        InputError: if it is damaged.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        self.where = str(path)
        try:
            with path.open("rb") as opened, NpzFile(opened, allow_pickle=False) as file:
                self._arrays = {name: file[name] for name in names if name in file}
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        except DAMAGED as error:
            # NumPy takes an array it cannot read for a pickle, and says how to load it unsafely.
            reason = "" if "pickle" in str(error) else f": {error}"
            raise InputError(f"{path} is damaged or no .npz file{reason}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def get(self, name: str, kinds: str, shape: tuple[int | None, ...] = ()) -> NDArray[Any]:
        """An array whose dtype is of some kinds (as NumPy's letters name them) and of a shape.

        Raises:
            InputError: if there is none, or it is another.
        """
        if name not in self:
            raise InputError(f"{self.where}: {name}: there is none")
        array = self._arrays[name]
        # What is no array in the file comes as bytes.
        if isinstance(array, np.ndarray) and array.dtype.kind in kinds:
            sides = zip(array.shape, shape, strict=False)
            if array.ndim == len(shape) and all(side in (found, None) for found, side in sides):
                return array
        found = f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray) else "bytes"
        wanted = f"{'float' if kinds == FLOATS else 'integer'} {list(shape)}".replace("None", "any")
        raise InputError(f"{self.where}: {name}: expected {wanted}, found {found}")

    def number(self, name: str) -> int:
        """A whole number above 0 that a store can hold.

        Raises:
            InputError: if there is none, or it is something else.
        """
        value = int(self.get(name, INTEGERS))
        if not 0 < value <= np.iinfo(np.int32).max:
            raise InputError(f"{self.where}: {name}: expected 1 or more, found {value}")
        return value
