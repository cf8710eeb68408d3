"""Stores, splits, and features that are extracted for a run."""

import json
import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.files import writing
from tests import tiny
from tests.sparta.extract.tiny_networks import noisy
from tests.stores import write_store
from tests.training.corpus import DIMENSION, Corpus
from training.inputs import (
    PhotoList,
    extract_for_training,
    features_folder,
    open_stores,
    record_stores,
    split_photos,
)
from training.run_config import DataConfig


@pytest.fixture(scope="module")
def store(corpus: Corpus) -> FeatureStore:
    return FeatureStore.open(corpus.features)


@pytest.fixture(scope="module")
def there(store: FeatureStore) -> PhotoList:
    return PhotoList.of([store])


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return noisy(tmp_path / "photos", "a.png", "b.png", "c.png")


def test_stores_must_have_one_source(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.features: give feature stores"):
        open_stores(DataConfig(), tmp_path)
    other = tmp_path / "other"
    write_store(other, replace(tiny.source(DIMENSION), weights="def"), [])
    with pytest.raises(
        InputError, match=f"{other} and .* different sources: weights: 'abc' against 'def'"
    ):
        open_stores(DataConfig(features=[corpus.features, other]), tmp_path)
    both = DataConfig(features=[corpus.features, corpus.features])
    assert len(open_stores(both, tmp_path)) == 2


def test_a_resumed_run_must_have_the_same_features(
    corpus: Corpus, store: FeatureStore, tmp_path: Path
) -> None:
    record_stores([store], tmp_path, resume=True)  # nothing recorded yet
    record_stores([store], tmp_path, resume=True)
    (entry,) = json.loads((tmp_path / "features.json").read_text())
    assert entry == {"folder": str(corpus.features), "fingerprint": store.fingerprint}
    other = write_store(tmp_path / "other", tiny.source(), tiny.images())
    for stores in ([other], [store, other]):
        with pytest.raises(InputError, match=f"features.json: the run began .* and {other.folder}"):
            record_stores(stores, tmp_path, resume=True)
    record_stores([other], tmp_path, resume=False)
    with pytest.raises(InputError, match=f"began with the features in {other.folder}, and none"):
        record_stores([], tmp_path, resume=True)


def test_held_out_photos_depend_on_the_seed_alone(
    corpus: Corpus, store: FeatureStore, there: PhotoList
) -> None:
    data = DataConfig(captions=corpus.captions, validation_photos=20)
    photos, held_out = split_photos(data, there, 1)
    assert (photos, held_out) == split_photos(data, PhotoList.of([store, store]), 1)
    names, kept = [p.image_id for p in photos], [p.image_id for p in held_out]
    assert (len(names), len(kept)) == (100, 20)
    assert sorted(names + kept) == store.ids
    assert names == sorted(names)
    assert kept == sorted(kept)
    assert split_photos(data, there, 2)[1] != held_out


def test_a_tenth_is_held_out_unless_the_captions_have_a_split_for_it(
    there: PhotoList, corpus: Corpus, tmp_path: Path
) -> None:
    def divided(**settings: Any) -> tuple[int, list[str]]:
        data = DataConfig.model_validate({"captions": corpus.captions} | settings)
        photos, held_out = split_photos(data, there, 0)
        ids = [photo.image_id for photo in held_out]
        assert not set(ids) & {photo.image_id for photo in photos}
        return len(photos), ids

    photos, ids = divided()
    assert (photos, len(ids)) == (108, 12)
    assert divided(validation_photos=12)[1] == ids
    assert divided(validation_photos=0) == (120, [])
    lines = [json.loads(line) for line in corpus.captions.read_text().splitlines()]
    own = tmp_path / "own.jsonl"
    for name, others, chosen in (
        ("val", "test", "val"),
        ("dev", "other", "dev"),
        ("dev", "val", "val"),
    ):
        for line, split in zip(lines, ["train"] * 100 + [name] * 15 + [others] * 5, strict=True):
            line["split"] = split
        own.write_text("".join(json.dumps(line) + "\n" for line in lines))
        expected = [line["image"] for line in lines if line["split"] == chosen]
        assert divided(captions=own) == (100, expected)
        assert divided(captions=own, validation_photos=7)[0] == 93
    own.write_text(
        own.read_text().replace('"p10', '"elsewhere/p10').replace('"p11', '"elsewhere/p11')
    )
    assert divided(captions=own)[0] == 90  # the photos of the split are not there


def test_at_most_a_thousand_photos_are_held_out(tmp_path: Path) -> None:
    ids = [f"{number:05}.jpg" for number in range(12_345)]
    captions = tmp_path / "captions.jsonl"
    captions.write_text("".join(f'{{"image": "{one}", "captions": ["x"]}}\n' for one in ids))
    photos, held_out = split_photos(DataConfig(captions=captions), PhotoList(tmp_path, ids), 0)
    assert (len(photos), len(held_out)) == (11_345, 1_000)


SPLITS = [(3, "train"), (2, "val"), (1, "train"), (4, "test")]


@pytest.fixture
def with_splits(tmp_path: Path) -> DataConfig:
    """Captions of four photos, of which one is held out."""
    captions = tmp_path / "captions.jsonl"
    lines = [f'{{"image": "p00{i}.jpg", "split": "{s}", "captions": ["x"]}}\n' for i, s in SPLITS]
    captions.write_text("".join(lines))
    return DataConfig(captions=captions, validation_split="val")


def test_photos_without_features_are_left_out_and_counted(
    there: PhotoList, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text(
        '{"image": "p001.jpg", "captions": ["x"]}\n{"image": "absent.jpg", "captions": ["x"]}\n'
    )
    with caplog.at_level(logging.WARNING):
        photos, _ = split_photos(DataConfig(captions=captions), there, 0)
    assert [p.image_id for p in photos] == ["p001.jpg"]
    assert f"1 of 2 captioned photos are not in {there.folder}: left out" in caplog.text
    captions.write_text('{"image": "absent.jpg", "captions": ["x"]}\n')
    with pytest.raises(InputError, match=r"ids like 'absent\.jpg', the photos like 'p000\.jpg'"):
        split_photos(DataConfig(captions=captions), there, 0)


def pixel_settings(photos: Path, **changes: Any) -> DataConfig:
    own: dict[str, Any] = {"photos": photos, "backbone": "pixels", "augmentations": 2, "grid": 4}
    return DataConfig(**own | changes)


def times(stores: list[FeatureStore]) -> list[int]:
    return [path.stat().st_mtime_ns for s in stores for path in sorted(s.folder.glob("shard-*"))]


def test_runs_share_the_features_beside_them(photos: Path, tmp_path: Path) -> None:
    first = extract_for_training(pixel_settings(photos), tmp_path / "runs" / "seed0")
    assert [store.augmentation for store in first] == ["plain", "flip"]
    assert [store.source.extra for store in first] == [{"grid": 4}] * 2
    (folder,) = (tmp_path / "runs" / "features").iterdir()
    assert folder.name.startswith("pixels-4x4-")
    assert [store.folder for store in first] == [folder / "plain", folder / "flip"]

    more = extract_for_training(
        pixel_settings(photos, augmentations=3), tmp_path / "runs" / "seed1"
    )
    assert [store.folder.name for store in more] == ["plain", "flip", "crop:1"]
    assert times(more[:2]) == times(first)  # not extracted again


def test_other_photos_and_settings_have_features_of_their_own(photos: Path, tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    changes: list[dict[str, Any]] = [{}, {"grid": None}, {"grid": 5}, {"image_size": 64}]
    changes += [{"backbone": "nets/efficientnet-lite2"}]
    folders = {features_folder(pixel_settings(photos, **own), run) for own in changes}
    noisy(photos, "d.png")
    folders |= {features_folder(pixel_settings(photos), run)}
    assert len(folders) == 6
    assert {folder.parent for folder in folders} == {tmp_path / "runs" / "features"}


def test_a_second_run_waits_for_the_first(
    photos: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    out = tmp_path / "runs" / "mine"
    folder = features_folder(pixel_settings(photos), out)
    held = threading.Event()

    def hold() -> None:
        with writing(folder):
            held.set()
            time.sleep(0.3)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with caplog.at_level(logging.WARNING):
        assert len(extract_for_training(pixel_settings(photos), out)) == 2
    other.join()
    assert f"{folder} is being written by process" in caplog.text
