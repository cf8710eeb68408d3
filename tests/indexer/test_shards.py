"""The layout of divided indexes, and what takes them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from indexer.manifest import Manifest, is_index, is_sharded
from indexer.shards import ShardsManifest, index_folders, owner
from indexer.split import split_index
from indexer.state import IndexState
from sparta.errors import InputError


@pytest.fixture
def divided(tmp_path: Path, index: Path) -> Path:
    split_index(index, tmp_path / "divided", 3)
    return tmp_path / "divided"


def test_owners_never_change_and_are_spread() -> None:
    assert [owner(image_id, 5) for image_id in ("a.jpg", "b/é 犬.jpg", "\ud800")] == [4, 2, 4]
    counts = Counter(owner(f"photos/{number}.jpg", 4) for number in range(4000))
    assert all(900 < count < 1100 for count in counts.values())
    assert owner("anything", 1) == 0


def test_a_divided_index_names_its_shards(divided: Path, index: Path) -> None:
    assert is_index(divided)
    assert is_sharded(divided)
    assert not is_sharded(index)
    assert not is_sharded(divided / "nothing")
    manifest = ShardsManifest.open(divided)
    assert manifest.images == 300
    assert manifest.shards == ["shard-000", "shard-001", "shard-002"]
    assert index_folders(divided) == [divided / name for name in manifest.shards]
    assert index_folders(index) == [index]


def test_the_state_is_of_all_shards(divided: Path, index: Path) -> None:
    state, whole = IndexState.read(divided), IndexState.read(index)
    assert state.manifest.images == 300
    assert state.manifest.postings == whole.manifest.postings
    assert state.columns
    assert state.version != whole.version
    assert state.bytes > 1000


def test_what_takes_one_index_says_so(divided: Path) -> None:
    expected = rf"^{divided} is divided into 3 shards, .* such as {divided / 'shard-000'}$"
    with pytest.raises(InputError, match=expected):
        Manifest.open(divided)
