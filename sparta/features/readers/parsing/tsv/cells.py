"""Cells of a TSV line: whole numbers, and arrays in base64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.base64_floats import decode
from sparta.features.readers.parsing.tsv.lines import TsvFile

DIGITS = 9  # of a number at most: a store holds widths and heights as int32


class Cells:
    """The cells of one line by name.

    Attributes:
        where: file and line, for messages.

    Raises:
        InputError: if there are more or fewer than names.
    """

    def __init__(self, file: TsvFile, line: int, names: Sequence[str]) -> None:
        self.where = file.where(line)
        self._cells = dict(zip(names, file.cells(line, names), strict=True))

    def number(self, name: str) -> int:
        """A whole number above 0.

        Raises:
            InputError: if the cell holds anything else, or more than nine digits.
        """
        cell = self._cells[name]
        number = int(cell) if cell.isdigit() and len(cell) <= DIGITS else 0
        if not number:
            found = cell[:20].decode(errors="replace")
            many = cell.isdigit() and len(cell) > DIGITS
            limit = f"at most {10**DIGITS - 1}" if many else "1 or more"
            raise InputError(f"{self.where}: {name}: expected {limit}, found {found!r}")
        return number

    def payload(self, name: str) -> bytes:
        """The bytes of a cell in base64, which some programs write as b'…', quotes and all.

        Raises:
            InputError: if it is not base64.
        """
        cell = self._cells[name]
        if cell[:2] in (b"b'", b'b"'):
            cell = cell[2:-1]
        return decode(cell, f"{self.where}: {name}")

    def rows(self, name: str, dtype: str, count: int, width: int | None = None) -> NDArray[Any]:
        """The rows of an array in base64.

        Args:
            name: of the cell.
            dtype: of the numbers, with their byte order.
            count: of rows.
            width: numbers of a row; None for as many as there are.

        Returns:
            [count, width].

        Raises:
            InputError: if it is not base64, or has more or fewer bytes.
        """
        payload = self.payload(name)
        size = np.dtype(dtype).itemsize
        found, rest = divmod(len(payload), size * count)
        if rest or found != (width or max(found, 1)):
            raise InputError(
                f"{self.where}: {name}: expected {count} rows of {width or 'equally many'} numbers "
                f"of {size} bytes, found {len(payload)} bytes"
            )
        return np.frombuffer(payload, dtype).reshape(count, found)
