"""Indexing photos for a model that was trained on a detector's regions."""

from dataclasses import replace
from pathlib import Path

import pytest

from indexer.build import build_index
from indexer.encoding.stores import open_stores
from sparta.errors import InputError
from sparta.features.extract.detector_settings import DetectorSettings
from sparta.features.extract.job import extract_photos
from sparta.features.store import FeatureStore
from sparta.tokenizer import WordPieceTokenizer
from tests.indexer.tiny import save_model
from tests.sparta.features.extract.tiny_detectors import picture, save_detector

SIZES = [(60, 45), (45, 60), (90, 30)]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for seed, size in enumerate(SIZES):
        picture(*size, seed).save(folder / f"{seed}.png")
    return folder


@pytest.fixture
def detector(tmp_path: Path) -> Path:
    return save_detector(tmp_path / "detector", "yolos")


def extract(
    photos: Path, out: Path, detection: DetectorSettings, backbone: str | None
) -> FeatureStore:
    extract_photos(
        photos,
        out,
        backbone,
        detection=detection,
        image_size=None if backbone is None else 32,
        device="cpu",
        workers=0,
    )
    return FeatureStore.open(out)


@pytest.mark.parametrize("backbone", [None, "pixels"])
def test_photos_are_extracted_as_for_training(
    photos: Path,
    detector: Path,
    backbone: str | None,
    tokenizer: WordPieceTokenizer,
    tmp_path: Path,
) -> None:
    detection = DetectorSettings(str(detector), 3, 0.001, colours=True)
    trained_on = extract(photos, tmp_path / "store", detection, backbone)
    model = save_model(tmp_path / "model", tokenizer, source=trained_on.source)
    stores = open_stores(
        [photos], [model], "visual_sparta", tmp_path / "index", augmentations=2, device="cpu"
    )
    assert stores[0].source == trained_on.source
    assert stores[0].fingerprint == trained_on.fingerprint
    assert [store.augmentation for store in stores] == ["plain", "flip"]
    manifest = build_index(stores, [model], tmp_path / "index", device="cpu")
    assert manifest.images == len(SIZES)


def test_regions_chosen_otherwise_are_refused(
    photos: Path, detector: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    detection = DetectorSettings(str(detector), 3, 0.001)
    trained_on = extract(photos, tmp_path / "store", detection, None)
    model = save_model(tmp_path / "model", tokenizer, source=trained_on.source)
    other = extract(photos, tmp_path / "other", replace(detection, regions=4), None)
    said = f"'regions': 3.* against .*'regions': 4.* --detector {detector} --regions 3 --threshold"
    with pytest.raises(InputError, match=said):
        build_index([other], [model], tmp_path / "index", device="cpu")


def test_a_detector_that_has_changed_is_refused(
    photos: Path, detector: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    detection = DetectorSettings(str(detector), 3, 0.001)
    trained_on = extract(photos, tmp_path / "store", detection, None)
    model = save_model(tmp_path / "model", tokenizer, source=trained_on.source)
    save_detector(detector, "yolos", seed=1)
    stores = open_stores([photos], [model], "visual_sparta", tmp_path / "index", device="cpu")
    with pytest.raises(InputError, match="holds other features than"):
        build_index(stores, [model], tmp_path / "index", device="cpu")


def test_regions_of_others_cannot_be_made_from_photos(
    photos: Path, detector: Path, tokenizer: WordPieceTokenizer, tmp_path: Path
) -> None:
    trained_on = extract(photos, tmp_path / "store", DetectorSettings(str(detector)), None)
    source = replace(trained_on.source, detector="", backbone="vinvl", weights="vinvl", extra={})
    model = save_model(tmp_path / "model", tokenizer, source=source)
    with pytest.raises(InputError, match=r"regions of a detector that is not available \(vinvl\)"):
        open_stores([photos], [model], "visual_sparta", tmp_path / "index")
