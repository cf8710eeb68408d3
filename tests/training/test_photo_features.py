import logging
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock
from PIL import Image

from sparta.errors import InputError
from sparta.features.extract import job
from sparta.features.store import FeatureStore
from sparta.features.writer import StoreWriter
from training.inputs import extract_for_training, features_folder
from training.run_config import DataConfig


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abc":
        Image.new("RGB", (32, 24), "red").save(folder / f"{name}.png")
    return folder


def settings(photos: Path, augmentations: int = 2, grid: int | None = 4) -> DataConfig:
    return DataConfig(photos=photos, backbone="pixels", augmentations=augmentations, grid=grid)


def times(stores: list[FeatureStore]) -> list[int]:
    return [path.stat().st_mtime_ns for s in stores for path in sorted(s.folder.glob("shard-*"))]


def test_runs_share_the_features_beside_them(photos: Path, tmp_path: Path) -> None:
    first = extract_for_training(settings(photos), tmp_path / "runs" / "seed0")
    assert [store.augmentation for store in first] == ["plain", "flip"]
    assert [store.source.extra for store in first] == [{"grid": 4}] * 2
    (folder,) = (tmp_path / "runs" / "features").iterdir()
    assert folder.name.startswith("pixels-4x4-")
    assert [store.folder for store in first] == [folder / "plain", folder / "flip"]

    more = extract_for_training(settings(photos, augmentations=3), tmp_path / "runs" / "seed1")
    assert [store.folder.name for store in more] == ["plain", "flip", "crop:1"]
    assert times(more[:2]) == times(first)  # not extracted again


def test_other_photos_and_settings_have_features_of_their_own(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    folders = {features_folder(photos, "pixels", grid, run) for grid in (None, 4, 5)}
    folders |= {features_folder(photos, "nets/efficientnet-lite2", 4, run)}
    Image.new("RGB", (32, 24), "blue").save(photos / "d.png")
    folders |= {features_folder(photos, "pixels", 4, run)}
    assert len(folders) == 5
    assert {folder.parent for folder in folders} == {tmp_path / "runs" / "features"}


def test_a_killed_extraction_continues(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "SHARD_SIZE", 2)
    unbroken = extract_for_training(settings(photos), tmp_path / "unbroken" / "run")
    write, out = StoreWriter.write_shard, tmp_path / "runs" / "mine"

    def failing(self: StoreWriter, *args: object) -> None:
        if self.folder.name == "flip" and self.done == 1:
            raise KeyboardInterrupt
        write(self, *args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(StoreWriter, "write_shard", failing)
        with pytest.raises(KeyboardInterrupt):
            extract_for_training(settings(photos), out)
    folder = features_folder(photos, "pixels", 4, out)
    finished = sorted(folder.glob("*/shard-*"))
    assert len(finished) == 3
    before = [path.stat().st_mtime_ns for path in finished]
    stores = extract_for_training(settings(photos), out)
    assert [path.stat().st_mtime_ns for path in finished] == before
    assert [s.fingerprint for s in stores] == [s.fingerprint for s in unbroken]


def test_a_second_run_waits_for_the_first(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "runs" / "mine"
    folder = features_folder(photos, "pixels", 4, out)
    folder.mkdir(parents=True)
    held = threading.Event()

    def hold() -> None:
        with FileLock(folder / "lock"):
            held.set()
            time.sleep(0.3)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with caplog.at_level(logging.WARNING):
        assert len(extract_for_training(settings(photos), out)) == 2
    other.join()
    assert f"waiting for another run that extracts features into {folder}" in caplog.text


def test_a_backbone_must_be_named(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.backbone: give the backbone"):
        extract_for_training(DataConfig(photos=photos), tmp_path / "run")
