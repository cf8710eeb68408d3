"""NumPy's files (`.npy`) and archives (`.npz`), never unpickled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from sparta.errors import InputError, first_line

FLOATS, INTEGERS = "f", "iu"  # as numpy.dtype.kind spells them
KINDS = {"float": FLOATS, "str": "US"}


def map_array(path: Path, axes: int, kind: Literal["float", "str"]) -> NDArray[Any]:
    """Map a `.npy` file read-only.

    Args:
        path: the file.
        axes: it must have.
        kind: of its entries.

    Raises:
        InputError: if it is absent, cut, of other axes or kind, or holds Python objects.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a header is parsed as Python, which fails in many ways
        if "Python objects" in str(error):
            raise InputError(
                f"{path} holds Python objects, and loading those may run code. If you trust the "
                f"file, convert it once: numpy.save({str(path)!r}, "
                f"numpy.load({str(path)!r}, allow_pickle=True).astype({kind!r}))"
            ) from error
        # NumPy takes any other file for a pickle; its message recommends unsafe loading.
        reason = "" if "pickle" in str(error) else f": {first_line(error)}"
        raise InputError(f"{path} is damaged or no .npy file{reason}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an .npz, expected an .npy")
    if array.ndim != axes or array.dtype.kind not in KINDS[kind]:
        raise InputError(
            f"{path}: expected {kind} with {axes} axes, found {array.dtype} {list(array.shape)}"
        )
    return array


def array_names(path: Path) -> set[str]:
    """Names of the arrays in an archive, none where it cannot be read."""
    try:
        with path.open("rb") as opened, NpzFile(opened, allow_pickle=False) as file:
            return set(file.files)
    except Exception:  # as in `map_array`
        return set()


class Arrays:
    """Some arrays of one archive; others are not touched.

    Args:
        path: of the archive.
        names: of those to read, if present.

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
        except Exception as error:  # as in `map_array`
            # As above: for NumPy an array that it cannot read is a pickle.
            reason = "" if "pickle" in str(error) else f": {first_line(error)}"
            raise InputError(f"{path} is damaged or no .npz file{reason}") from error

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
