"""Feature stores of images to add, extracted from photos for as long as they are needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.encoding.stores import open_stores
from indexer.update.sources import opened_stores
from sparta.errors import InputError
from sparta.features.skipped import Skipped
from sparta.features.store import FeatureStore


@pytest.fixture
def built(photos: Path, model_dir: Path, tmp_path: Path) -> Path:
    out = tmp_path / "index"
    stores = open_stores([photos], [model_dir], "visual_sparta", out, augmentations=2, device="cpu")
    build_index(stores, [model_dir], out, device="cpu")
    return out


def test_photos_are_extracted_as_those_of_the_index(
    built: Path, photos: Path, model_dir: Path, tmp_path: Path
) -> None:
    (photos / "more").mkdir()
    shutil.copy(photos / "0.png", photos / "more" / "new.png")
    (photos / "more" / "empty.jpg").touch()
    before = sorted(tmp_path.rglob("*"))
    with opened_stores(built, [photos / "more", photos / "0.png"], [], [model_dir], "cpu") as found:
        assert [store.ids for store in found.stores] == [["0.png", "more/new.png"]] * 2
        assert [store.augmentation for store in found.stores] == ["plain", "flip"]
        assert found.skipped == [Skipped("more/empty.jpg", "the file is empty")]
        right = FeatureStore.open(tmp_path / "index.features" / "flip")
        own = found.stores[1]
        assert own[0].features.tobytes() == right[right.index("0.png")].features.tobytes()
    assert sorted(tmp_path.rglob("*")) == before


def test_photos_that_cannot_be_used_are_named(built: Path, photos: Path, model_dir: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (photos / name).touch()
    chosen = [photos / "a.jpg", photos / "b.jpg"]
    problem = r".*/a\.jpg: the file is empty \(and 1 more\)"
    with (
        pytest.raises(InputError, match=rf"no photo could be used: {problem}"),
        opened_stores(built, chosen, [], [model_dir], "cpu"),
    ):
        pass


def test_stores_are_opened(sparse_index: Path, store: FeatureStore, model_dir: Path) -> None:
    with opened_stores(sparse_index, [], [store.folder], [model_dir]) as found:
        assert [one.fingerprint for one in found.stores] == [store.fingerprint]
        assert found.skipped == []
