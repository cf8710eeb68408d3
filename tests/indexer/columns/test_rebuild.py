"""Columns rebuilt from Lucene are those that were built with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from indexer.columns.layout import Columns
from indexer.columns.manifest import FOLDER, FORMAT_VERSION, ColumnManifest, columns_fit
from indexer.columns.rebuild import rebuild_columns
from sparta.errors import InputError


def test_columns_read_back_are_those_that_were_built(index: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(index, tmp_path / "index")
    shutil.rmtree(copy / FOLDER)
    laid_out: list[tuple[str, int, int]] = []
    rebuild_columns(copy, lambda *step: laid_out.append(step))
    assert laid_out[-1] == ("columns", 300, 300)
    assert sorted(path.name for path in copy.iterdir()) == sorted(p.name for p in index.iterdir())
    built, again = (Columns.map(folder / FOLDER) for folder in (index, copy))
    for name, one, other in zip(Columns._fields, built, again, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert columns_fit(copy)


def test_columns_of_another_format_can_be_made_again(index: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(index, tmp_path / "index") / FOLDER
    manifest = folder / "manifest.json"
    own, former = (f'"format_version": {number}' for number in (FORMAT_VERSION, 2))
    manifest.write_text(manifest.read_text().replace(own, former))
    with pytest.raises(InputError, match=r"has index format 2, .*: delete .* again from Lucene"):
        ColumnManifest.open(folder)
