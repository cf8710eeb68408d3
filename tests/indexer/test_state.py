"""What an index folder's manifests say."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from indexer.dense.build import add_dense
from indexer.state import IndexState, index_version
from sparta.errors import InputError
from tests.indexer.sealed import change
from tests.indexer.tiny_dense import save_dense_model
from tests.server.drawings import index_drawings, store_drawings


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    store = store_drawings(folder / "store")
    out = index_drawings(folder / "index", folder / "photos", store.fingerprint)
    add_dense(out, store, "vse++", save_dense_model(folder / "m", "vse++", 1, seed=1), device="cpu")
    return out


def test_all_files_are_counted(index: Path) -> None:
    state = IndexState.read(index)
    files = [path for path in index.rglob("*") if path.is_file() and path.name != "manifest.json"]
    assert state.bytes == sum(path.stat().st_size for path in files)
    assert (state.manifest.images, state.columns, state.dense) == (5, True, ("vse++",))
    assert state.version == index_version(index)
    assert len(state.version) == 12


def test_what_changes_the_answers_changes_the_version(index: Path, tmp_path: Path) -> None:
    before, copy = index_version(index), copytree(index, tmp_path / "copy")
    assert index_version(copy) == before
    rmtree(copy / "columns")
    assert index_version(copy) == before
    assert not IndexState.read(copy).columns
    rmtree(copy / "dense")
    without = index_version(copy)
    change(copy, created="2001-01-01T00:00:00+00:00")
    assert len({before, without, index_version(copy)}) == 3


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        IndexState.read(tmp_path)
