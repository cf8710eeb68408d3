"""Detectors against the library's own results, and their regions in a store."""

import colorsys
import importlib.util
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from sparta.command_line import cli
from sparta.errors import InputError
from sparta.extract import detector as module
from sparta.extract import job as job
from sparta.extract.detector import (
    NAMES,
    Detector,
    box_colours,
    name_pixels,
    pool_boxes,
)
from sparta.extract.job import extract_photos
from sparta.features.record import DetectorSettings, FeatureSource, extract_command
from sparta.features.store import FeatureStore, source_hash
from sparta.networks.backbone import Backbone
from tests.sparta.extract.tiny_networks import (
    FAMILIES,
    QUERIES,
    RESNET,
    WORDS,
    detr,
    picture,
    save,
    save_detector,
)

SIZES = [(60, 45), (45, 60), (60, 45), (100, 40)]


@pytest.mark.parametrize("family", FAMILIES)
def test_finds_what_the_library_finds(tmp_path: Path, family: str) -> None:
    folder = save_detector(tmp_path, family)
    detector = Detector(str(folder), "cpu")
    photo = picture(100, 40)
    found = detector([detector.resize(photo)])[0]
    processor = hf.AutoImageProcessor.from_pretrained(folder, backend="pil")
    with torch.no_grad():
        model = hf.AutoModelForObjectDetection.from_pretrained(folder).eval()
        output = model(**processor(images=photo, return_tensors="pt"))
    right = processor.post_process_object_detection(output, -1.0, [(1, 1)])[0]
    boxes = right["boxes"].clamp(0, 1).numpy()
    # Some families give a query several classes, and leave out the least likely pairs.
    for row in np.flatnonzero(found.confidences > float(right["scores"].min()) + 1e-6):
        same = np.abs(boxes - found.boxes[row]).max(axis=1) < 1e-4
        same &= np.abs(right["scores"].numpy() - found.confidences[row]) < 1e-4
        assert (right["labels"].numpy()[same] == found.classes[row]).any()
    assert found.confidences.max() == pytest.approx(float(right["scores"].max()), abs=1e-5)
    states = output.last_hidden_state[0, -QUERIES:].numpy()
    np.testing.assert_allclose(found.states, states, atol=1e-4)
    assert found.boxes.shape == (QUERIES, 4)
    assert found.boxes.min() >= 0 and found.boxes.max() <= 1
    assert (found.boxes[:, :2] <= found.boxes[:, 2:]).all()
    assert len(set(found.classes.tolist())) > 1
    assert np.ptp(found.boxes, axis=0).max() > 0.05
    assert np.ptp(found.confidences) > 0.05


@pytest.mark.parametrize("family", FAMILIES)
def test_the_neighbours_of_a_photo_change_nothing(tmp_path: Path, family: str) -> None:
    detector = Detector(str(save_detector(tmp_path, family)), "cpu")
    photos = [detector.resize(picture(*size, seed)) for seed, size in enumerate(SIZES)]
    together = detector(photos)
    for photo, found in zip(photos, together, strict=True):
        alone = detector([photo])[0]
        np.testing.assert_array_equal(found.classes, alone.classes)
        pairs: Any = zip(found, alone, strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, atol=1e-4)
    assert np.abs(together[0].states - together[2].states).max() > 1e-3


def test_refuses_what_is_no_detector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--detector .*nowhere does not exist: give a mod"):
        Detector(str(tmp_path / "nowhere"), "cpu")
    classifier = hf.ResNetForImageClassification(hf.ResNetConfig(**RESNET))
    save(classifier, tmp_path)
    with pytest.raises(InputError, match="is not an object detector"):
        Detector(str(tmp_path), "cpu")
    monkeypatch.setattr(module, "load_model", lambda _name, _task: classifier)
    with pytest.raises(InputError, match="does not give boxes, classes and a state"):
        Detector(str(tmp_path), "cpu")


@pytest.mark.skipif(importlib.util.find_spec("timm") is not None, reason="timm is installed")
def test_says_which_library_a_checkpoint_needs(tmp_path: Path) -> None:
    hf.DetrConfig(use_timm_backbone=True, backbone="resnet18").save_pretrained(tmp_path)
    hf.DetrImageProcessor().save_pretrained(tmp_path)
    save_file(detr()[0].state_dict(), tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"cannot be loaded: .*timm"):
        Detector(str(tmp_path), "cpu")


EXTRA = {"detector": "hash", "size": {}, "regions": 7, "threshold": 0.25, "colours": True}
DETECTED = FeatureSource("region", "", "", 16, 0, 0, EXTRA, "some/detr")
POOLED = FeatureSource("region", "a/resnet", "abc", 8, 64, 2, EXTRA, "some/detr")


def test_the_command_that_makes_features_of_a_source() -> None:
    chosen = "sparta extract PHOTOS --detector some/detr --regions 7 --threshold 0.25 --colours"
    assert extract_command(DETECTED) == chosen
    assert extract_command(POOLED) == f"{chosen} --backbone a/resnet --image-size 64 --labels 2"
    assert "files of vinvl" in extract_command(FeatureSource("region", "vinvl", "v", 2048, 0))


COLOURED = np.array([[0, 0, 1, 1], [0.2, 0.1, 0.7, 0.9], [0.95, 0.95, 1, 1], [1, 1, 1, 1]])


def slow_name(red: int, green: int, blue: int) -> str:
    """One pixel, rule by rule."""
    turn, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    hue = turn * 360
    if value < 0.2:
        return "black"
    if saturation < 0.18:
        return "white" if value >= 0.75 else "grey"
    ends = {"red": 15, "orange": 40, "yellow": 70, "green": 165, "blue": 255, "purple": 290}
    ends |= {"pink": 345}
    name = next((name for name, end in ends.items() if hue < end), "red")
    if name in ("red", "pink") and saturation < 0.5 and value >= 0.7:
        return "pink"
    if hue < 50 and (value < 0.65 or saturation < 0.5):
        return "brown"
    return name


def slow_colour(pixels: np.ndarray, box: np.ndarray) -> str:
    height, width = pixels.shape[:2]
    x1, y1, x2, y2 = box * [width, height, width, height]
    left, right = (x1 + x2) / 2 - (x2 - x1) / 4, (x1 + x2) / 2 + (x2 - x1) / 4
    top, bottom = (y1 + y2) / 2 - (y2 - y1) / 4, (y1 + y2) / 2 + (y2 - y1) / 4
    rows = [y for y in range(height) if y < bottom and y + 1 > top]
    columns = [x for x in range(width) if x < right and x + 1 > left]
    names = Counter(
        slow_name(*pixels[y, x].tolist())
        for y in rows or [min(int(top), height - 1)]
        for x in columns or [min(int(left), width - 1)]
    )
    name = max(names, key=lambda name: (names[name], -NAMES.index(name)))
    return name if names[name] >= 0.35 * names.total() else ""


def test_every_pixel_is_named_as_one_by_one() -> None:
    levels = [0, 30, 50, 51, 90, 127, 166, 178, 179, 191, 192, 230, 255]
    pixels = np.array([[r, g, b] for r in levels for g in levels for b in levels], np.uint8)
    found = [NAMES[name] for name in name_pixels(pixels)]
    assert set(found) == set(NAMES)
    right = [slow_name(*pixel) for pixel in pixels.tolist()]
    # Hues that lie on a border may round to either side of it.
    assert sum(one != other for one, other in zip(found, right, strict=True)) <= 3


@pytest.mark.parametrize("seed", range(4))
def test_boxes_as_pixel_by_pixel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    picture = rng.integers(0, 256, (12, 10, 3)).astype(np.uint8)
    picture[rng.random((12, 10)) < 0.3] = (30, 60, 200)
    corners = np.sort(rng.random((20, 2, 2)), axis=1).reshape(20, 4)
    boxes = np.concatenate([COLOURED, corners])
    found = box_colours(picture, boxes)
    assert found == [slow_colour(picture, box) for box in boxes]
    assert {"", "blue"} <= set(found)


CELLS = [[0, 0, 1, 1], [0.1, 0.3, 0.35, 0.9], [0, 0, 0.02, 0.03], [0.97, 0.2, 1, 0.9]]
BOXES = np.array([*CELLS, [0.5, 0.5, 0.5, 1]])


def slow_pool(cells: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Point by point, with the four cells around each."""
    rows, columns, dimension = cells.shape
    total = np.zeros(dimension)
    for i in range(14):
        for j in range(14):
            y = (box[1] + (box[3] - box[1]) * (i + 0.5) / 14) * rows - 0.5
            x = (box[0] + (box[2] - box[0]) * (j + 0.5) / 14) * columns - 0.5
            y, x = min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)
            top, left = int(y), int(x)
            bottom, right = min(top + 1, rows - 1), min(left + 1, columns - 1)
            upper = (1 - x + left) * cells[top, left] + (x - left) * cells[top, right]
            lower = (1 - x + left) * cells[bottom, left] + (x - left) * cells[bottom, right]
            total += (1 - y + top) * upper + (y - top) * lower
    return total / 14**2


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (5, 9), (1, 3), (30, 2)])
def test_pools_as_point_by_point(rows: int, columns: int) -> None:
    cells = np.random.default_rng(0).normal(size=(rows, columns, 6)).astype(np.float16)
    found = pool_boxes(cells, BOXES)
    assert found.dtype == np.float32
    right = [slow_pool(cells.astype(np.float64), box) for box in BOXES]
    np.testing.assert_allclose(found, right, atol=1e-5)


# ---- from photos to a detector's regions in a store ----------------------------------------------

SHAPES = [(60, 45), (45, 60), (90, 30), (60, 45), (64, 64), (30, 90), (60, 45)]


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
    for seed, size in enumerate(SHAPES):
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
    assert store.ids == [f"{number}.png" for number in range(len(SHAPES))]
    for image, size in zip(store, SHAPES, strict=True):
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
        "threshold": (replace(base, threshold=0.1, colours=True), {}),
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
    assert (cropped[0].width, cropped[0].height) == SHAPES[0]


def test_states_beyond_half_precision_are_skipped(photos: Path, tmp_path: Path) -> None:
    folder = save_detector(tmp_path / "detector", "yolos")
    model = hf.AutoModelForObjectDetection.from_pretrained(folder)
    model.vit.layernorm.weight.data *= 1e6
    model.save_pretrained(folder)
    with pytest.raises(InputError, match="no photo could be used"):
        extract(photos, tmp_path / "out", DetectorSettings(str(folder), 4, 0.0))
    lines = (tmp_path / "out" / "skipped.jsonl").read_text().splitlines()
    reasons = [json.loads(line)["reason"] for line in lines]
    assert reasons.count("the network's output exceeds float16") == len(SHAPES)


def test_photos_too_narrow_to_see_are_skipped(tmp_path: Path, detector: str) -> None:
    (tmp_path / "photos").mkdir()
    picture(60, 45).save(tmp_path / "photos" / "a.png")
    picture(8, 4000).save(tmp_path / "photos" / "b.png")
    store = extract(tmp_path / "photos", tmp_path / "out", DetectorSettings(detector, 4, 0.0))
    assert store.ids == ["a.png"]
    line = json.loads((tmp_path / "out" / "skipped.jsonl").read_text())
    assert line["reason"] == "8x4000 pixels, too narrow for the detector"


def test_the_command(photos: Path, tmp_path: Path, detector: str) -> None:
    asked = f"extract {photos} --detector {detector} --regions 4 --threshold 0.001 --colours"
    asked += f" --workers 0 --device cpu --out {tmp_path / 'out'}"
    done = CliRunner().invoke(cli, asked.split())
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
