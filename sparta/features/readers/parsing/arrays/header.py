"""What the head of a `.npy` states, and the array behind it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray


@dataclass(frozen=True)
class Header:
    """What the head of a `.npy` states.

    Attributes:
        shape: of the array.
        dtype: of its entries.
        columns_first: whether the first axis changes fastest (Fortran's order).
        offset: of the entries in bytes.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    columns_first: bool
    offset: int

    @classmethod
    def read(cls, file: IO[bytes]) -> Header:
        """Read it from the start of a file.

        Raises:
            ValueError: if there is none; NumPy's parser raises many other types.
        """
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
        """Check that a file ends where the entries do.

        Raises:
            ValueError: if it ends before.
        """
        if self.offset + self.size > end:
            raise ValueError(
                f"{self.dtype} {list(self.shape)} takes {self.size:,} bytes, and it has "
                f"{end - self.offset:,}"
            )

    def array(self, content: bytes) -> NDArray[Any]:
        """The array of these bytes.

        Raises:
            ValueError: if they are fewer.
        """
        entries = np.frombuffer(content, self.dtype, prod(self.shape))
        return entries.reshape(self.shape, order="F" if self.columns_first else "C")
