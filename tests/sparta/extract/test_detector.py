"""Detectors against the library's own results; colours of boxes and pooled cells, one by one."""

import colorsys
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import save_file

from sparta.errors import InputError
from sparta.extract import detector as module
from sparta.extract.detector import (
    NAMES,
    Detector,
    box_colours,
    name_pixels,
    pool_boxes,
)
from sparta.features.record import FeatureSource, extract_command
from tests.sparta.extract.tiny_detectors import (
    FAMILIES,
    QUERIES,
    detr,
    picture,
    save_detector,
)
from tests.sparta.extract.tiny_networks import RESNET, save

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
