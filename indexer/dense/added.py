"""Vectors that were appended to a dense part since it was made, as images were added.

Two files beside the part's own: vectors, and origins, whose records are 32 digits, a CRC-32 of the
row of vectors, and one of the record. A row is there once its record is, which is written after
the vectors are on the disk. What a killed writer left unfinished is cut off by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from indexer.parts import MANIFEST
from indexer.store.origin import DIGITS
from sparta.atomic import sync
from sparta.errors import InputError

PREFIX = "added-"
_RECORD = np.dtype([("origin", f"S{DIGITS}"), ("vectors", "<u4"), ("record", "<u4")])


class AddedRows:
    """The rows that were appended to a part, as far as they are whole; more with every call.

    A row never changes, so that rows may be read while others are appended.

    Args:
        folder: of the part. Rows of a part that was made anew are in other files.
        views: vectors of a row.
        dimension: of a vector.
    """

    def __init__(self, folder: Path, views: int, dimension: int) -> None:
        made = sha256((folder / MANIFEST).read_bytes()).hexdigest()[:12]
        self._shape = views, dimension
        self.origin_file = folder / f"{PREFIX}{made}.origins"
        self.vector_file = folder / f"{PREFIX}{made}.vectors"

    def records(self) -> NDArray[np.void]:
        """The whole records.

        Raises:
            InputError: if one before the last is damaged.
        """
        data = self.origin_file.read_bytes() if self.origin_file.exists() else b""
        found = np.frombuffer(data, _RECORD, len(data) // _RECORD.itemsize)
        whole = np.array([one["record"] == crc32(one.tobytes()[:-4]) for one in found], np.bool_)
        count = len(whole) if whole.all() else int(whole.argmin())
        if whole[count:].any():
            raise _damaged(self.origin_file)
        return found[:count]

    def origins(self) -> list[str]:
        """[n] of each row."""
        origins: list[str] = self.records()["origin"].astype(f"U{DIGITS}").tolist()
        return origins

    def vectors(self, count: int, checked: int = 0) -> NDArray[np.float32]:
        """[count, K, D] of the first rows, mapped.

        Args:
            count: of rows, at most those of `origins`.
            checked: how many of them need not be compared with their checksums.

        Raises:
            InputError: if a row is damaged.
        """
        if not count:
            return np.empty((0, *self._shape), np.float32)
        try:
            rows = np.memmap(self.vector_file, np.dtype("<f4"), "r", 0, (count, *self._shape))
        except (OSError, ValueError) as error:  # missing, or too short
            raise _damaged(self.vector_file) from error
        expected = self.records()["vectors"]
        if any(crc32(rows[row]) != expected[row] for row in range(checked, count)):
            raise _damaged(self.vector_file)
        return rows

    def append(self, origins: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Append rows and sync them; only the writer of the index may.

        Args:
            origins: [n].
            vectors: [n, K, D].

        Raises:
            InputError: if the records are damaged.
            OSError: if the disk fails.
        """
        count = len(self.records())
        rows = np.ascontiguousarray(vectors, "<f4")
        records = np.zeros(len(origins), _RECORD)
        records["origin"] = origins
        records["vectors"] = [crc32(row) for row in rows]
        records["record"] = [crc32(one.tobytes()[:-4]) for one in records]
        _write(self.vector_file, count * rows[0].nbytes, rows.tobytes())
        _write(self.origin_file, count * _RECORD.itemsize, records.tobytes())
        sync(self.origin_file.parent)


def _write(path: Path, position: int, data: bytes) -> None:
    """Put data after the whole rows of a file, and sync it."""
    with path.open("ab") as file:
        file.truncate(position)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _damaged(path: Path) -> InputError:
    return InputError(f"{path} is damaged: add the dense part again with `sparta index-dense`")
