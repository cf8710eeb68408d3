"""A damaged shard is found when it is verified, and when its first row is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.features.verify import stores_in, verify_store, verify_stores
from tests.indexer.tiny import write_store


def test_a_damaged_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_store(tmp_path / "store")
    steps: list[tuple[str, int, int]] = []
    assert verify_store(store.folder, lambda *step: steps.append(step)) == []
    assert [step[0] for step in steps] == ["hash"] * 3 and steps[-1][1] == steps[-1][2]
    copy = Path(shutil.copytree(store.folder, tmp_path / "copy"))
    damaged = copy / "shard-00001.arrow"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    [problem] = verify_store(copy)
    assert "shard-00001.arrow is damaged (its content has another hash)" in problem
    opened = FeatureStore.open(copy)
    assert opened[0].image_id == "0/0.jpg"
    with pytest.raises(InputError, match=r"shard-00001\.arrow is damaged"):
        opened[8]


def test_stores_in_a_folder(tmp_path: Path) -> None:
    plain, flip, cut = (write_store(tmp_path / name).folder for name in ("plain", "flip", "z"))
    (tmp_path / "other").mkdir()
    assert stores_in(tmp_path) == [flip, plain, cut]
    assert stores_in(plain) == [plain]
    assert stores_in(tmp_path / "other") == []
    assert verify_stores(stores_in(tmp_path)) == []
    (flip / "store.json").write_text("{")
    (cut / "shard-00000.arrow").unlink()
    first, second = verify_stores(stores_in(tmp_path))
    assert "flip" in first and "shard-00000.arrow" in second


def test_each_shard_is_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_store(tmp_path / "store")
    hashed: list[int] = []
    check = FeatureStore.check_shard

    def counting(self: FeatureStore, number: int) -> None:
        hashed.append(number)
        check(self, number)

    monkeypatch.setattr(FeatureStore, "check_shard", counting)
    assert len(store.ids) == 21 and not hashed
    for row in (0, 1, 20, 0, 9):
        store[row]
    assert hashed == [0, 2, 1]
