"""A column of texts of a mapped Arrow file, read without an Arrow object for each."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa


class _Chunk(NamedTuple):
    """Texts one behind another.

    Attributes:
        ends: [n + 1] where each begins, and the last one ends, in `data`.
        data: UTF-8.
    """

    ends: memoryview
    data: memoryview


class Texts:
    """The texts of a column, by their numbers.

    Args:
        column: of large strings, none of which is null.
    """

    def __init__(self, column: pa.ChunkedArray) -> None:
        chunks = [chunk for chunk in column.chunks if len(chunk)]
        self._chunks = [_chunk(chunk) for chunk in chunks]
        *self._firsts, self._count = accumulate(map(len, chunks), initial=0)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> str:
        """A text.

        Raises:
            IndexError: if there is none with this number.
        """
        if not 0 <= number < self._count:
            raise IndexError(number)
        chunk = bisect_right(self._firsts, number) - 1
        place = number - self._firsts[chunk]
        ends, data = self._chunks[chunk]
        return str(data[ends[place] : ends[place + 1]], "utf-8")


def _chunk(chunk: pa.Array) -> _Chunk:
    _, ends, data = chunk.buffers()
    last = chunk.offset + len(chunk) + 1
    return _Chunk(
        memoryview(ends).cast("q")[chunk.offset : last],
        memoryview(b"" if data is None else data).cast("B"),
    )
