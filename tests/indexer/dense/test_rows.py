"""Rows by origins: what was looked up stays, what was missing is looked up again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from indexer.dense.rows import RowFinder


class Parts:
    """Origins of images, and how often they were read."""

    def __init__(self, **origins: list[str]) -> None:
        self.origins, self.read = origins, list[str]()

    def get(self, *names: str) -> list[tuple[str | None, Callable[[], pa.ChunkedArray]]]:
        """Parts by their names; of one that changes, the name begins with a new."""
        return [(None if n.startswith("new") else n, partial(self._read, n)) for n in names]

    def _read(self, name: str) -> pa.ChunkedArray:
        self.read.append(name)
        return pa.chunked_array([self.origins[name]], pa.large_string())


def chunked(*origins: str) -> pa.ChunkedArray:
    return pa.chunked_array([list(origins)], pa.large_string())


def test_what_does_not_change_is_looked_up_once() -> None:
    finder = RowFinder(chunked("a", "b", "a"))
    parts = Parts(one=["b", "a"], two=["c", "b", "d"], new=["c"], newer=["d", "b"])
    assert finder.find(parts.get("one", "two", "new"), []).tolist() == [1, 0, -1, 1, -1, -1]
    before = finder.find(parts.get("one", "two"), [])
    assert parts.read == ["one", "two", "new"]
    # Rows came: what was missing is looked up again, in another array.
    after = finder.find(parts.get("two", "newer"), ["x", "c", "b"])
    assert after.tolist() == [4, 1, -1, -1, 1]
    assert before.tolist() == [1, 0, -1, 1, -1]
    assert finder.find(parts.get("two"), ["x", "c", "b", "d"]).tolist() == [4, 1, 6]
    parts.read.clear()
    assert finder.find(parts.get("two", "one"), ["x", "c", "b", "d", "e"]).tolist() == [
        *(4, 1, 6),
        *(1, 0),
    ]
    assert parts.read == ["one"]  # which was not among the last ones


def test_no_image_and_no_row() -> None:
    finder = RowFinder(chunked())
    assert finder.find([], []).tolist() == []
    assert finder.find(Parts(one=["a"]).get("one"), []).dtype == np.int64
