"""Columns whose arrays do not fit together are refused when they are opened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.columns.index import ColumnIndex
from indexer.columns.layout import Columns
from sparta.errors import InputError
from tests.indexer.columns.corpus import built, random_rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    built(tmp_path / "columns", random_rows(3000, 8, 0), 8)
    return tmp_path / "columns"


@pytest.mark.parametrize(
    ("name", "at", "content"),
    [
        ("order", 40, b"\xff" * 64),
        ("order", 0, bytes(4) * 2),  # an image twice
        ("row_of", 16, b"\x07\0\0\0\x07\0\0\0"),
        ("sizes", 0, b"\1"),
        ("sizes", 31, b"\1"),  # of a superblock that is not there
        ("anchors", 0, b"\1"),
        ("bases", 8, b"\xff\xff"),
        ("steps", 0, b"\0\0"),
    ],
)
def test_damaged_references(folder: Path, name: str, at: int, content: bytes) -> None:
    path = folder / f"{name}.npy"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - np.load(path).nbytes + at)
        file.write(content)
    with pytest.raises(InputError, match=r"\.npy is damaged: it does not fit the other columns"):
        ColumnIndex.open(folder)


@pytest.mark.parametrize("name", Columns._fields)
def test_other_shapes_and_types(folder: Path, name: str) -> None:
    path = folder / f"{name}.npy"
    array = np.load(path)
    for other in (array[..., np.newaxis], array.astype(np.float32), np.delete(array, 0, 0)):
        np.save(path, other)
        with pytest.raises(InputError, match=r"\.npy is damaged: it does not fit"):
            ColumnIndex.open(folder)
