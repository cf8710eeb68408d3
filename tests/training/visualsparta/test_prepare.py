import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from sparta.errors import InputError
from sparta.features.store import FeatureStore
from sparta.features.writer import write_store
from tests import tiny
from tests.training.conftest import DIMENSION, Corpus
from training.run import open_views, split_photos
from training.run_config import PhotosConfig
from training.visualsparta import prepare
from training.visualsparta.config import DataConfig, ModelConfig


@pytest.fixture(scope="module")
def store(corpus: Corpus) -> FeatureStore:
    return FeatureStore.open(corpus.features)


def test_views_must_come_from_one_source(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.features: name feature stores"):
        open_views(DataConfig(), tmp_path)
    other = tmp_path / "other"
    write_store(other, replace(tiny.source(DIMENSION), weights="def"), [])
    with pytest.raises(InputError, match=f"{other} is no view of .*: weights: 'abc' against 'def'"):
        open_views(DataConfig(features=[corpus.features, other]), tmp_path)
    both = DataConfig(features=[corpus.features, corpus.features])
    assert len(open_views(both, tmp_path)) == 2


def test_features_can_be_extracted_for_the_run(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for name in "ab":
        Image.new("RGB", (32, 24), "red").save(photos / f"{name}.png")
    config = DataConfig(photos=photos, backbone="pixels", views=3)
    views = open_views(config, tmp_path)
    assert [view.view for view in views] == ["plain", "flip", "crop:1"]
    assert all(view.ids == ["a.png", "b.png"] for view in views)
    with pytest.raises(InputError, match=r"data\.backbone"):
        open_views(DataConfig(photos=photos), tmp_path)
    with pytest.raises(InputError, match=r"data\.features.* or else data\.photos"):
        open_views(DataConfig(photos=photos, features=[tmp_path / "features"]), tmp_path)


def test_held_out_photos_depend_on_the_seed_alone(corpus: Corpus, store: FeatureStore) -> None:
    data = DataConfig(captions=corpus.captions, validation_photos=20)
    photos, held_out = split_photos(data, [store], 1)
    assert (photos, held_out) == split_photos(data, [store, store], 1)
    names, kept = [p.image_id for p in photos], [p.image_id for p in held_out]
    assert (len(names), len(kept)) == (100, 20)
    assert sorted(names + kept) == store.ids
    assert names == sorted(names)
    assert kept == sorted(kept)
    assert split_photos(data, [store], 2)[1] != held_out


def test_a_split_of_its_own_is_held_out(store: FeatureStore, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    lines = [f'{{"image": "p00{i}.jpg", "split": "{s}", "captions": ["x"]}}\n' for i, s in SPLITS]
    captions.write_text("".join(lines))
    data = DataConfig(captions=captions, validation_split="val")
    photos, held_out = split_photos(data, [store], 0)
    assert [p.image_id for p in photos] == ["p001.jpg", "p003.jpg"]
    assert [p.image_id for p in held_out] == ["p002.jpg"]


SPLITS = [(3, "train"), (2, "val"), (1, "train"), (4, "test")]


def test_photos_without_features_are_left_out_and_counted(
    store: FeatureStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text(
        '{"image": "p001.jpg", "captions": ["x"]}\n{"image": "absent.jpg", "captions": ["x"]}\n'
    )
    with caplog.at_level(logging.WARNING):
        photos, _ = split_photos(DataConfig(captions=captions), [store], 0)
    assert [p.image_id for p in photos] == ["p001.jpg"]
    assert "1 of 2 captioned photos have no features" in caplog.text
    captions.write_text('{"image": "absent.jpg", "captions": ["x"]}\n')
    with pytest.raises(InputError, match=r"speak of 'absent\.jpg', the store holds 'p000\.jpg'"):
        split_photos(DataConfig(captions=captions), [store], 0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"captions": None}, r"data\.captions: name a captions\.jsonl"),
        ({"validation_photos": 120}, "holding out 120 of 120 photos leaves none to train on"),
        ({"split": "dev"}, "no photo has split 'dev'"),
    ],
)
def test_wrong_data_settings_are_named(
    corpus: Corpus, store: FeatureStore, data: dict[str, Any], message: str
) -> None:
    config = DataConfig.model_validate({"captions": corpus.captions} | data)
    with pytest.raises(InputError, match=message):
        split_photos(config, [store], 0)


@pytest.mark.parametrize(("size", "world"), [(91, 1), (30, 4)])
def test_a_batch_that_does_not_fit_is_refused(
    corpus: Corpus, store: FeatureStore, size: int, world: int
) -> None:
    config = corpus.config(batch_size=size)
    photos, _ = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, photos)
    with pytest.raises(InputError, match=f"batch_size: {size} must be a multiple of {world}"):
        prepare.training_loader(config, [store], photos, model, 0, world)


def test_misspelt_model_settings_are_refused(corpus: Corpus, store: FeatureStore) -> None:
    photos, _ = split_photos(DataConfig(captions=corpus.captions), [store], 0)
    for settings, message in (
        ({"encoder": {"hidden_sise": 32}}, r"BertConfig has no fields \['hidden_sise'\]"),
        ({"options": {"use_label": False}}, r"unknown model options \['use_label'\]"),
    ):
        with pytest.raises(InputError, match=message):
            prepare.build_model(ModelConfig.model_validate(settings), store.source, photos)


def test_validation_queries_know_their_photo(corpus: Corpus, store: FeatureStore) -> None:
    config = corpus.config()
    photos, held_out = split_photos(config.data, [store], 0)
    model = prepare.build_model(config.model, store.source, photos)
    queries, targets = prepare.validation_queries(model, held_out)
    assert targets.tolist() == [i for i in range(30) for _ in range(2)]
    expected = model.encode_queries([text for photo in held_out for text in photo.captions])
    assert torch.equal(queries.terms, expected.terms)
    assert torch.equal(queries.counts, expected.counts)
    loader = prepare.validation_loader(config, store, held_out, model)
    shown = torch.cat([batch.regions for batch in loader])
    for row, photo in zip(shown, held_out, strict=True):
        own = torch.from_numpy(store[store.index(photo.image_id)].features.copy())
        assert torch.equal(row, own)


def test_captions_may_name_photos_by_number(tmp_path: Path) -> None:
    images = [tiny.image(2, seed=seed) for seed in range(3)]
    images = [replace(image, image_id=str(40 + i)) for i, image in enumerate(images)]
    store = write_store(tmp_path / "features", tiny.source(), images)
    sentences = [{"raw": f"a dog {i}"} for i in range(5)]
    photos = [
        {"filename": f"x{i}.jpg", "cocoid": 40 + i, "split": "train", "sentences": sentences}
        for i in range(3)
    ]
    path = tmp_path / "dataset_coco.json"
    path.write_text(json.dumps({"dataset": "coco", "images": photos}))
    config = PhotosConfig(captions=path, image_key="cocoid")
    found, _ = split_photos(config, [store], 0)
    assert [photo.image_id for photo in found] == ["40", "41", "42"]
    with pytest.raises(InputError, match="no captioned photo is in the feature store"):
        split_photos(PhotosConfig(captions=path), [store], 0)
