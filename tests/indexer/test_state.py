"""What an index folder's manifests say."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree, rmtree

import pytest

from indexer.care.snapshots import take_snapshot
from indexer.dense.build import add_dense
from indexer.split import split_index
from indexer.state import IndexState, index_version, place_of
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


def test_a_copy_is_at_another_place(index: Path, tmp_path: Path) -> None:
    alias, copy, divided = tmp_path / "alias", tmp_path / "copy", tmp_path / "divided"
    alias.symlink_to(index)
    assert place_of(alias) == place_of(index) == IndexState.read(alias).place
    take_snapshot(index, copy)
    assert index_version(copy) == index_version(index)
    assert place_of(copy) != place_of(index)
    before = place_of(copy)
    copy.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved") != before
    copytree(tmp_path / "moved", copy)
    assert place_of(copy) != before
    split_index(index, divided, 2)
    before = place_of(divided)
    (divided / "shard-001").rename(tmp_path / "shard")
    copytree(tmp_path / "shard", divided / "shard-001")
    assert place_of(divided) != before
    (divided / "shard-001").rename(tmp_path / "away")
    with pytest.raises(OSError, match="shard-001"):
        place_of(divided)


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not an index"):
        IndexState.read(tmp_path)
