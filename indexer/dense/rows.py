"""Finds the rows of a dense part by what images were encoded from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

# The origins of images that never change, under a name of their own; those of others under None.
OriginParts: TypeAlias = Sequence[tuple[Hashable | None, Callable[[], pa.ChunkedArray]]]


class RowFinder:
    """Looks up rows by origins; what does not change is looked up once. Safe from any thread.

    After the first call, memory holds some 170 bytes a row.

    Args:
        origins: of the first rows.
    """

    def __init__(self, origins: pa.ChunkedArray) -> None:
        self._lock = Lock()
        self._rows: dict[str, int] = {}
        self._origins: pa.ChunkedArray | None = origins
        self._first = len(origins)
        self._known = 0
        # Of the images that were looked up last: rows, and how many rows there were then.
        self._found: dict[Hashable, tuple[NDArray[np.int64], int]] = {}

    def find(self, images: OriginParts, added: Sequence[str]) -> NDArray[np.int64]:
        """[documents] the row of each image, -1 where there is none.

        Args:
            images: of one commit.
            added: origins of the rows after the first ones; no fewer than in an earlier call.
        """
        with self._lock:
            if self._origins is not None:
                self._add(self._origins.to_pylist())
                self._origins = None
            self._add(added[self._known - self._first :])
            return self._find(images)

    def _add(self, origins: Sequence[str]) -> None:
        for row, origin in enumerate(origins, start=self._known):
            self._rows.setdefault(origin, row)
        self._known += len(origins)

    def _find(self, images: OriginParts) -> NDArray[np.int64]:
        found, every = {}, [np.empty(0, np.int64)]
        for name, origins in images:
            rows, known = self._found.get(name, (None, 0))
            if rows is None:
                rows = self._look_up(origins())
            elif known < self._known and (rows < 0).any():
                lacking, rows = rows < 0, rows.copy()
                rows[lacking] = self._look_up(origins().filter(pa.array(lacking)))
            every.append(rows)
            if name is not None:
                found[name] = rows, self._known
        self._found = found
        return np.concatenate(every)

    def _look_up(self, origins: pa.ChunkedArray) -> NDArray[np.int64]:
        rows = self._rows
        return np.array([rows.get(origin, -1) for origin in origins.to_pylist()], np.int64)
