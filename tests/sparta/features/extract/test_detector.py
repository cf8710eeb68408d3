"""Detectors against the library's own results, and the command that makes a source's features."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from safetensors.torch import save_file

from sparta.errors import InputError
from sparta.features.extract import detector as module
from sparta.features.extract.detector import Detector
from sparta.features.record import FeatureSource, extract_command
from tests.sparta.features.extract.tiny_detectors import (
    FAMILIES,
    QUERIES,
    detr,
    picture,
    save_detector,
)
from tests.sparta.features.extract.tiny_networks import RESNET, save

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
