"""NumPy files, mapped into memory and never unpickled."""

from __future__ import annotations

from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError

# What NumPy raises where a header has changed: it is a Python literal.
DAMAGED = (ValueError, EOFError, TypeError, TokenError)
KINDS = {"float": "f", "str": "US"}  # as numpy.dtype.kind spells them


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
    except DAMAGED as error:
        if "Python objects" in str(error):
            raise InputError(
                f"{path} holds Python objects, and loading those may run code. If you trust the "
                f"file, convert it once: numpy.save({str(path)!r}, "
                f"numpy.load({str(path)!r}, allow_pickle=True).astype({kind!r}))"
            ) from error
        # NumPy takes any other file for a pickle, and says how to load it unsafely.
        reason = "" if "pickle" in str(error) else f": {error}"
        raise InputError(f"{path} is damaged or no .npy file{reason}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is an .npz, expected an .npy")
    if array.ndim != axes or array.dtype.kind not in KINDS[kind]:
        raise InputError(
            f"{path}: expected {kind} with {axes} axes, found {array.dtype} {list(array.shape)}"
        )
    return array
