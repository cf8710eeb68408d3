"""Whether the arrays of columns fit together, checked without reading the impacts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from indexer.columns.layout import BITMAP, GROUP, HALF, LEVELS, PLACES, SUPERBLOCK, Columns
from indexer.parts import columns_remedy
from sparta.errors import InputError

ROWS_AT_ONCE = 256


def check_columns(columns: Columns, folder: Path) -> None:
    """Refuse arrays whose shapes, types or references to one another are not those of columns.

    Reads all but the impacts: up to 0.14 gigabytes for a million images, mostly `sizes`.

    Args:
        columns: of the folder.
        folder: for messages.

    Raises:
        InputError: naming the file that is wrong.
    """
    for name in _problems(columns):
        raise InputError(
            f"{folder / name}.npy is damaged: it does not fit the other columns; "
            f"{columns_remedy(folder)}"
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
