"""Rows of numbers in base64 whose float type shows in their length."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.features.readers.parsing.validation import TOLERANCE

LOCATION = 6  # numbers at the end of each row


def decode(text: bytes | str, where: str) -> bytes:
    """The bytes of a base64 text.

    Args:
        text: the base64.
        where: file, line and field, for messages.

    Raises:
        InputError: if it is not base64.
    """
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        reason = str(error) if isinstance(error, binascii.Error) else "it is not ASCII"
        raise InputError(f"{where}: not base64 ({reason}); the line may be cut") from error


def row_width(count: int, payload: bytes, where: str) -> int:
    """Numbers per row, as far as one payload of unknown float type determines them.

    Published rows have 2,054 numbers, in 4 or 2 bytes each. Other detectors have other widths; the
    type is then seen from the locations: float32 read as float16 has numbers above 1 among them.

    Args:
        count: of rows.
        payload: little-endian float32 or float16, row by row, a location at each row's end.
        where: file, line and field, for messages.

    Raises:
        InputError: if the bytes do not make this number of rows.
    """
    width, rest = divmod(len(payload), 2 * count)
    if not rest and width % 2 == 0:
        ends = np.frombuffer(payload, "<f2").reshape(count, width)[:, -LOCATION:]
        width //= 2 if (ends > 1 + TOLERANCE).any() else 1
    if rest or width <= LOCATION:
        raise InputError(
            f"{where}: {len(payload)} bytes are not {count} rows of more than {LOCATION} floats"
        )
    return width


def as_rows(count: int, payload: bytes, width: int, where: str) -> NDArray[np.floating[Any]]:
    """All numbers of a payload.

    Args:
        count: of rows.
        payload: little-endian float32 or float16, row by row.
        width: numbers per row.
        where: file, line and field, for messages.

    Returns:
        [count, width] float32 or float16, as they are stored.

    Raises:
        InputError: if it has another length than either type gives.
    """
    types = {4 * count * width: "<f4", 2 * count * width: "<f2"}
    if len(payload) not in types:
        raise InputError(
            f"{where}: expected {count} rows of {width} numbers, "
            f"{' or '.join(map(str, types))} bytes, found {len(payload)}"
        )
    return np.frombuffer(payload, types[len(payload)]).reshape(count, width)
