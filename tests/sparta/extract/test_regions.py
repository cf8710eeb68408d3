"""From photos to a detector's regions in a store."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers as hf
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from sparta.commands.features import extract as command
from sparta.errors import InputError
from sparta.extract import job as job
from sparta.extract.detector import NAMES, Detector, box_colours, pool_boxes
from sparta.extract.job import extract_photos
from sparta.features.record import DetectorSettings
from sparta.features.store import FeatureStore, source_hash
from sparta.networks.backbone import Backbone
from tests.sparta.extract.tiny_detectors import WORDS, picture, save_detector
from tests.sparta.extract.tiny_networks import RESNET, save

SIZES = [(60, 45), (45, 60), (90, 30), (60, 45), (64, 64), (30, 90), (60, 45)]


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_detector(tmp_path_factory.mktemp("detector"), "yolos"))


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("backbone")
    network = hf.ResNetForImageClassification(hf.ResNetConfig(**RESNET))
    return str(save(network, folder, size={"height": 48, "width": 48}))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven photos of several shapes, and one that is none."""
    folder = tmp_path_factory.mktemp("photos")
    for seed, size in enumerate(SIZES):
        picture(*size, seed).save(folder / f"{seed}.png")
    (folder / "4b.png").write_text("broken")
    return folder


def extract(photos: Path, out: Path, detection: DetectorSettings, **options: Any) -> FeatureStore:
    given = {"backbone": None, "workers": 0, "device": "cpu"} | options
    extract_photos(photos, out, detection=detection, **given)
    return FeatureStore.open(out)


def test_states_boxes_labels_and_colours(photos: Path, tmp_path: Path, detector: str) -> None:
    store = extract(photos, tmp_path / "out", DetectorSettings(detector, 5, 0.0, colours=True))
    network = Detector(detector, "cpu")
    assert store.ids == [f"{number}.png" for number in range(len(SIZES))]
    for image, size in zip(store, SIZES, strict=True):
        photo = Image.open(photos / image.image_id)
        found = network([network.resize(photo)])[0]
        order = sorted(range(len(found.boxes)), key=lambda row: -found.confidences[row])[:5]
        np.testing.assert_allclose(image.features[:5], found.states[order], rtol=2e-3, atol=2e-3)
        mean = found.states.mean(axis=0)
        np.testing.assert_allclose(image.features[5], mean, rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(image.boxes[:5], found.boxes[order], atol=1e-4)
        np.testing.assert_array_equal(image.boxes[5], [0, 0, 1, 1])
        assert image.labels == (*(WORDS[found.classes[row]] for row in order), "")
        square = np.asarray(photo.resize((224, 224), Image.Resampling.BILINEAR))
        assert image.attributes == (*box_colours(square, image.boxes[:5]), "")
        assert (image.width, image.height) == size
    assert {label for image in store for label in image.labels} > {""}
    assert {colour for image in store for colour in image.attributes} & set(NAMES)
    line = json.loads((tmp_path / "out" / "skipped.jsonl").read_text())
    assert line["image_id"] == "4b.png" and "not an image" in line["reason"]


def test_a_threshold_leaves_the_whole_photo(photos: Path, tmp_path: Path, detector: str) -> None:
    all_of_them = extract(photos, tmp_path / "all", DetectorSettings(detector, 12, 0.0))
    some = extract(photos, tmp_path / "some", DetectorSettings(detector, 12, 0.5))
    none = extract(photos, tmp_path / "none", DetectorSettings(detector, 12, 1.0))
    assert {len(image.features) for image in all_of_them} == {13}
    assert 1 < max(len(image.features) for image in some) < 13
    assert {len(image.features) for image in none} == {1}
    for three in zip(all_of_them, some, none, strict=True):
        wholes = [image.features[-1].tobytes() for image in three]
        assert wholes[0] == wholes[1] == wholes[2]
        kept = len(three[1].features) - 1
        np.testing.assert_array_equal(three[0].features[:kept], three[1].features[:kept])
    assert set(all_of_them[0].attributes) == {""}


def test_pooled_vectors(photos: Path, tmp_path: Path, detector: str, backbone: str) -> None:
    detection = DetectorSettings(detector, 4, 0.0, colours=True)
    pooled = extract(photos, tmp_path / "pooled", detection, backbone=backbone, labels=1)
    plain = extract(photos, tmp_path / "plain", detection)
    network = Backbone(backbone, labels=1, device="cpu")
    for image, same in zip(pooled, plain, strict=True):
        photo = Image.open(photos / image.image_id)
        square = np.array(photo.resize((48, 48), Image.Resampling.BICUBIC))
        rows, labels = network.encode(square[None])
        cells = rows[0, :-1].reshape(*network.grid, -1)
        right = pool_boxes(cells, image.boxes[:4])
        np.testing.assert_allclose(image.features[:4], right, rtol=2e-3, atol=1e-3)
        np.testing.assert_allclose(image.features[4], rows[0, -1], rtol=2e-3, atol=1e-3)
        np.testing.assert_array_equal(image.boxes, same.boxes)
        assert image.labels == (*same.labels[:-1], *labels)
        assert image.attributes == (*box_colours(square, image.boxes[:4]), "")
    assert {image.labels[-1] for image in pooled} <= {"dog", "cat", "boat"}


def test_the_source_of_features(photos: Path, tmp_path: Path, detector: str, backbone: str) -> None:
    base = DetectorSettings(detector, 4, 0.0)
    other = save_detector(tmp_path / "other_detector", "yolos", seed=1)
    runs: dict[str, tuple[DetectorSettings, dict[str, Any]]] = {
        "base": (base, {}),
        "regions": (replace(base, regions=5), {}),
        "threshold": (replace(base, threshold=0.1), {}),
        "colours": (replace(base, colours=True), {}),
        "other": (replace(base, detector=str(other)), {}),
        "pooled": (base, {"backbone": backbone}),
        "small": (base, {"backbone": backbone, "image_size": 32}),
    }
    sources = {
        name: extract(photos, tmp_path / name, detection, **options).source
        for name, (detection, options) in runs.items()
    }
    assert len({source_hash(source) for source in sources.values()}) == len(sources)
    for name, source in sources.items():
        assert source.kind == "region" and source.detector
        assert bool(source.differences(sources["base"])) == (name != "base")
    assert (sources["base"].dimension, sources["base"].image_size) == (16, 0)
    assert (sources["pooled"].dimension, sources["pooled"].image_size) == (12, 48)
    copy = save_detector(tmp_path / "copy", "yolos")
    again = extract(photos, tmp_path / "again", DetectorSettings(str(copy), 4, 0.0))
    assert again.source.detector == str(copy)
    assert again.source.differences(sources["base"]) == []
    assert again.fingerprint == FeatureStore.open(tmp_path / "base").fingerprint


def test_views_are_of_what_the_detector_sees(photos: Path, tmp_path: Path, detector: str) -> None:
    detection = DetectorSettings(detector, 4, 0.0)
    flipped = extract(photos, tmp_path / "flip", detection, augmentation="flip")
    (tmp_path / "mirrored").mkdir()
    for image_id in flipped.ids:
        photo = Image.open(photos / image_id).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        photo.save(tmp_path / "mirrored" / image_id)
    mirrored = extract(tmp_path / "mirrored", tmp_path / "out", detection)
    for one, other in zip(flipped, mirrored, strict=True):
        np.testing.assert_array_equal(one.features, other.features)
        np.testing.assert_array_equal(one.boxes, other.boxes)
    plain = extract(photos, tmp_path / "plain", detection)
    cropped = extract(photos, tmp_path / "crop", detection, augmentation="crop:1")
    for changed in (flipped, cropped):
        assert np.abs(plain[0].features - changed[0].features).max() > 0.01
    assert (cropped[0].width, cropped[0].height) == SIZES[0]


def test_states_beyond_half_precision_are_skipped(photos: Path, tmp_path: Path) -> None:
    folder = save_detector(tmp_path / "detector", "yolos")
    model = hf.AutoModelForObjectDetection.from_pretrained(folder)
    model.vit.layernorm.weight.data *= 1e6
    model.save_pretrained(folder)
    with pytest.raises(InputError, match="no photo could be used"):
        extract(photos, tmp_path / "out", DetectorSettings(str(folder), 4, 0.0))
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert reasons.count("the network's output exceeds float16") == len(SIZES)


def test_photos_too_narrow_to_see_are_skipped(tmp_path: Path, detector: str) -> None:
    (tmp_path / "photos").mkdir()
    picture(60, 45).save(tmp_path / "photos" / "a.png")
    picture(8, 4000).save(tmp_path / "photos" / "b.png")
    store = extract(tmp_path / "photos", tmp_path / "out", DetectorSettings(detector, 4, 0.0))
    assert store.ids == ["a.png"]
    line = json.loads((tmp_path / "out" / "skipped.jsonl").read_text())
    assert line["reason"] == "8x4000 pixels, too narrow for the detector"


def test_the_command(photos: Path, tmp_path: Path, detector: str) -> None:
    app = Typer()
    app.command()(command)
    asked = [str(photos), "--detector", detector, "--regions", "4", "--threshold", "0.001"]
    asked += ["--colours", "--workers", "0", "--device", "cpu", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, asked, env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    assert "7 images, 8 photos in" in done.output
    detection = DetectorSettings(detector, 4, 0.001, colours=True)
    store = FeatureStore.open(tmp_path / "out")
    assert DetectorSettings.of(store.source) == detection
    assert store.fingerprint == extract(photos, tmp_path / "same", detection).fingerprint


def test_options_of_a_backbone_need_one(photos: Path, tmp_path: Path, detector: str) -> None:
    for options in ({"image_size": 48}, {"labels": 2}):
        with pytest.raises(InputError, match="are for a --backbone"):
            extract(photos, tmp_path / "out", DetectorSettings(detector), **options)
    with pytest.raises(InputError, match="--backbone: name what turns"):
        extract_photos(photos, tmp_path / "out", None)
    assert not (tmp_path / "out").exists()
