"""Columns opened for searching, in C where the package was built with a compiler, else in NumPy."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import BITMAP, GROUP, HALF, LEVELS, PLACES, SUPERBLOCK, Columns
from indexer.manifest import REMEDY
from sparta.errors import InputError

try:
    from indexer.columns import native as kernel
except ImportError:
    from indexer.columns import postings as kernel  # type: ignore[no-redef]

    _home = Path(__file__).parents[2]
    logging.getLogger(__name__).warning(
        "the search kernel is missing, and a search takes some 400 times as long: "
        + (
            f"these are the sources in {_home}: run in another folder if VisualSparta is "
            f"installed, else pip install --editable {_home}, which needs a C compiler"
            if (_home / "pyproject.toml").is_file()
            else "install a wheel of VisualSparta, or a C compiler and then VisualSparta again"
        )
    )

__all__ = ["ColumnIndex", "MaskCache", "check_columns", "kernel"]
PAGE = 4096  # bytes
ROWS_AT_ONCE = 256
REMEMBERED = 16  # filters

Made = TypeVar("Made")


class ColumnIndex:
    """Columns mapped from disk, and the impacts that they hold. Safe from any thread.

    Attributes:
        columns: the arrays.
        opened: the same for `best_documents`.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns, self.opened = columns, kernel.open_columns(columns)

    @classmethod
    def open(cls, folder: Path) -> ColumnIndex:
        """Map the files of `lay_out`; raises InputError if they do not fit together."""
        columns = Columns.map(folder)
        check_columns(columns, folder)
        return cls(columns)

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.columns.order)

    def read_ahead(self) -> None:
        """Touch every page of the files, so that no query waits for the disk or the page table."""
        for array in self.columns:
            array.reshape(-1).view(np.uint8)[::PAGE].max(initial=0)

    def impacts(
        self, documents: Sequence[int] | NDArray[np.int64], terms: Sequence[int] | NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The impacts [documents, terms] of some documents, 0 where one lacks a term."""
        rows = self.columns.row_of[np.asarray(terms, np.int64)].astype(np.int64)
        positions = self._positions[np.asarray(documents, np.int64)]
        return kernel.impacts_at(self.columns, positions, rows)

    def term_impacts(self, term: int) -> NDArray[np.uint16]:
        """The impacts [N] of all documents for a term of the vocabulary, 0 where one lacks it."""
        row = int(self.columns.row_of[term])
        if row < 0:
            return np.zeros(len(self), np.uint16)
        return kernel.impacts_of_row(self.columns, row)

    @cached_property
    def document_frequencies(self) -> NDArray[np.int64]:
        """[V] in how many documents each term of the vocabulary has an impact."""
        columns = self.columns
        # The last row, of a term that no document has, is that of -1.
        found = np.append(columns.frequencies, 0)
        return found[columns.row_of]

    @cached_property
    def _positions(self) -> NDArray[np.int64]:
        """[N], the position of each document."""
        positions = np.empty(len(self), np.int64)
        positions[self.columns.order] = np.arange(len(self))
        return positions


def check_columns(columns: Columns, folder: Path) -> None:
    """Raise InputError if shapes, types or references between the arrays are not those of columns.

    Reads all but the impacts: up to 0.14 gigabytes for a million images, mostly `sizes`.
    """
    for name in _problems(columns):
        raise InputError(
            f"{folder / name}.npy is damaged: it does not fit the other columns: {REMEDY}"
        )


def _problems(columns: Columns) -> Iterator[str]:
    """Names of the arrays that do not fit; a later check relies on the earlier ones."""
    axes = {"maxima": 2, "anchors": 2, "sizes": 2, "levels": 3, "bitmaps": 3}
    yield from (
        name for name in columns._fields if getattr(columns, name).ndim != axes.get(name, 1)
    )
    kinds = {"order": np.int32, "row_of": np.int32, "bases": np.int64}
    kinds |= {"anchors": np.uint32, "steps": np.uint16}
    kinds |= dict.fromkeys(("sizes", "levels", "bitmaps"), np.uint8)
    wide = columns.maxima.dtype == np.uint16
    kinds |= dict.fromkeys(("maxima", "impacts"), np.uint16 if wide else np.uint8)
    kinds["postings"] = np.uint32 if wide else np.uint16
    yield from (name for name, kind in kinds.items() if getattr(columns, name).dtype != kind)
    images, terms, dense = len(columns.order), len(columns.maxima), columns.dense
    superblocks, marked = -(-images // SUPERBLOCK), dense - len(columns.levels)
    groups = superblocks // GROUP + 1
    shapes = {
        "order": (images,),
        "row_of": (columns.row_of.size,),
        "maxima": (terms, superblocks),
        "bases": (terms,),
        "anchors": (terms, groups),
        "sizes": (terms, groups * GROUP),
        "steps": (min(dense, terms),),
        "levels": (min(len(columns.levels), dense), superblocks, HALF),
        "bitmaps": (marked, superblocks, BITMAP),
    }
    yield from (name for name, shape in shapes.items() if getattr(columns, name).shape != shape)
    if not _is_permutation(columns.order, images):
        yield "order"
    if not _is_permutation(columns.row_of[columns.row_of != -1], terms):
        yield "row_of"
    for first in range(0, terms, ROWS_AT_ONCE):
        own = slice(first, first + ROWS_AT_ONCE)
        sizes = columns.sizes[own].reshape(-1, groups, GROUP).sum(axis=2, dtype=np.int64)
        if (columns.anchors[own] != np.cumsum(sizes, axis=1) - sizes).any():
            yield "anchors"
        if columns.sizes[own, superblocks:].any():
            yield "sizes"
    # The last 256 impacts, so that no levels, however damaged, lead beyond the end.
    ends = columns.frequencies
    for name, rows, more in (
        ("impacts", slice(dense), PLACES),
        ("postings", slice(dense, None), 0),
    ):
        if (columns.bases[rows] != np.cumsum(ends[rows]) - ends[rows]).any():
            yield "bases"
        if len(getattr(columns, name)) != ends[rows].sum() + more:
            yield name
    if (
        columns.steps.astype(np.int64) * LEVELS < columns.maxima[:dense].max(axis=1, initial=0)
    ).any():
        yield "steps"


def _is_permutation(numbers: NDArray[np.int32], count: int) -> bool:
    """Whether an array has each number from 0 to count - 1 once."""
    inside = len(numbers) == count and numbers.min(initial=0) >= 0
    return bool(
        inside
        and numbers.max(initial=-1) < count
        and (np.bincount(numbers, minlength=count) == 1).all()
    )


class MaskCache(Generic[Made]):
    """What was made of the masks used last, if these cannot be changed. Safe from any thread."""

    def __init__(self) -> None:
        self._last: deque[tuple[ref[NDArray[np.bool_]], Made]] = deque(maxlen=REMEMBERED)

    def of(self, mask: NDArray[np.bool_], make: Callable[[NDArray[np.bool_]], Made]) -> Made:
        """What is made of a mask [documents], always by the same function."""
        for known, made in tuple(self._last):
            if known() is mask:
                return made
        made = make(mask)
        if not mask.flags.writeable:
            self._last.append((ref(mask), made))
        return made
