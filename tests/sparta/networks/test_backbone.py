"""Backbones of transformers by family and of timm, patches of pixels, and pooled grids."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.extract.extractor import PooledGrid, load_extractor, load_extractor_of
from sparta.extract.job import extract_photos
from sparta.features.record import DetectorSettings, extract_command
from sparta.features.store import FeatureStore
from sparta.networks import pretrained
from sparta.networks.backbone import Backbone
from sparta.networks.encoder import PixelPatches, weights_hash
from tests.sparta.extract.tiny_networks import (
    NETWORKS,
    RESNET,
    SIDE,
    SMALL,
    photos,
    prepared,
    save,
)


def test_labels_are_the_classifiers_best_words(tmp_path: Path) -> None:
    folder = str(save(hf.ResNetForImageClassification(hf.ResNetConfig(**RESNET)), tmp_path))
    plain, named = (Backbone(folder, labels=k, device="cpu") for k in (0, 2))
    assert named.source.label_count == 2
    features, labels = named.encode(photos())
    np.testing.assert_array_equal(features, plain.encode(photos())[0])
    network = hf.ResNetForImageClassification.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        logits = network(pixel_values=prepared(photos())).logits.numpy()
    words = np.array(["", "dog", "cat", "boat"])
    for found, row in zip(labels, logits, strict=True):
        assert found == ", ".join(words[1 + np.argsort(-row[1:])[:2]])
    assert len(Backbone(folder, labels=9, device="cpu").encode(photos())[1][0].split(", ")) == 3


def test_size_is_what_the_network_sees(tmp_path: Path) -> None:
    options = {
        "size": {"shortest_edge": 48},
        "do_center_crop": True,
        "crop_size": {"height": SIDE, "width": SIDE},
        "resample": int(Image.Resampling.BICUBIC),
    }
    folder = str(save(hf.ViTModel(hf.ViTConfig(**SMALL)), tmp_path, **options))
    backbone = Backbone(folder, device="cpu")
    assert backbone.source.image_size == SIDE
    assert backbone.resample == Image.Resampling.BICUBIC
    larger = Backbone(folder, image_size=48, device="cpu")  # position embeddings are stretched
    assert larger.grid == (6, 6)
    assert larger.encode(photos(side=48))[0].shape == (2, 37, 16)
    with pytest.raises(InputError, match="--image-size"):
        Backbone(folder, image_size=4, device="cpu")


def test_refuses_checkpoints_with_missing_weights(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save(hf.ViTModel(hf.ViTConfig(**SMALL)), tmp_path)
    weights = load_file(folder / "model.safetensors")
    gone = {key: value for key, value in weights.items() if "patch_embeddings" not in key}
    save_file(gone, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(InputError, match=r"lacks the weights embeddings.patch_embeddings"):
        Backbone(str(folder), device="cpu")


def test_weights_hash_is_of_content(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first = save(hf.ResNetModel(hf.ResNetConfig(**RESNET)), tmp_path / "a")
    second = save(hf.ResNetModel(hf.ResNetConfig(**RESNET)), tmp_path / "b")
    assert weights_hash(str(first)) == weights_hash(str(second))
    model = hf.ResNetModel.from_pretrained(first)
    next(model.parameters()).data += 1
    model.save_pretrained(second)
    assert weights_hash(str(first)) != weights_hash(str(second))
    model.save_pretrained(tmp_path / "c", max_shard_size="2KB")
    assert len(list((tmp_path / "c").glob("*.safetensors"))) > 1
    assert len(weights_hash(str(tmp_path / "c"))) == 16
    with pytest.raises(InputError, match=r"neither model.safetensors nor"):
        (second / "model.safetensors").unlink()
        weights_hash(str(second))


def test_patches_are_squares_of_the_photo_and_the_whole_is_shrunk() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 48, 48, 3), np.uint8)
    features, labels = PixelPatches(48).encode(pixels)
    assert features.shape == (2, 10, 768)
    assert features.dtype == np.float16
    assert labels == ["", ""]
    for row in range(3):
        for column in range(3):
            square = pixels[1, row * 16 : row * 16 + 16, column * 16 : column * 16 + 16]
            expected = square.reshape(-1).astype(np.float32) / 127.5 - 1
            np.testing.assert_allclose(features[1, row * 3 + column], expected, atol=1e-3)
    blocks = pixels[1].reshape(16, 3, 16, 3, 3).mean(axis=(1, 3))
    np.testing.assert_allclose(features[1, -1], blocks.reshape(-1) / 127.5 - 1, atol=1e-3)


@pytest.mark.parametrize(("side", "cells"), [(64, 2), (80, 3), (48, 1)])
def test_a_cell_is_the_mean_of_those_it_touches(side: int, cells: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, side, side, 3), np.uint8)
    encoder = PixelPatches(side)
    n = encoder.grid[0]
    plain, _ = encoder.encode(pixels)
    pooled = PooledGrid(encoder, cells)
    found, labels = pooled.encode(pixels)
    assert (found.shape, found.dtype) == ((2, cells * cells + 1, 768), np.float16)
    assert labels == ["", ""]
    squares = plain[:, :-1].astype(np.float32).reshape(2, n, n, 768)
    for row in range(cells):
        for column in range(cells):
            y, x = (slice(i * n // cells, -(-(i + 1) * n // cells)) for i in (row, column))
            expected = squares[:, y, x].mean((1, 2))
            np.testing.assert_allclose(found[:, row * cells + column], expected, atol=1e-3)
    np.testing.assert_array_equal(found[:, -1], plain[:, -1])


def test_the_grid_is_part_of_the_source(tmp_path: Path) -> None:
    Image.new("RGB", (20, 20), "red").save(tmp_path / "a.png")
    extract_photos(tmp_path, tmp_path / "out", "pixels", image_size=64, grid=2, workers=0)
    store = FeatureStore.open(tmp_path / "out")
    assert store.source.extra == {"grid": 2}
    assert store[0].boxes.tolist()[1] == [0.5, 0, 1, 0.5]
    assert store[0].features.shape == (5, 768)
    assert load_extractor_of(store.source).source == store.source
    assert extract_command(store.source).endswith("--image-size 64 --labels 0 --grid 2")
    plain = load_extractor("pixels", None, 64).source
    assert plain.differences(store.source) == ["extra: {} against {'grid': 2}"]
    assert load_extractor("pixels", None, 64, grid=4).source == plain, "the same cells"


# ---- families of networks against the library's own, with tiny weights ---------------------------

SQUARE = {"height": 64, "width": 64}
# Half the defaults, so that mixed-up means and deviations show.
DINO_FILE = {
    "image_processor_type": "DINOv3ViTImageProcessorFast",
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "rescale_factor": 1 / 255,
    "size": {"height": SIDE, "width": SIDE},
    "resample": 2,
}


def sized(model: Any) -> Any:
    """Weights by which activations neither vanish nor explode, whatever the depth."""
    torch.manual_seed(0)
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=(2 / parameter[0].numel()) ** 0.5)
        else:
            torch.nn.init.normal_(parameter, mean=float("weight" in name), std=0.1)
    return model.eval()


def encoded(folder: Path, processor: Any, model: Any) -> tuple[Backbone, NDArray[Any]]:
    """A saved checkpoint, opened, and its features of two photos, which must not be zeros."""
    model.save_pretrained(folder)
    if isinstance(processor, dict):
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    else:
        processor.save_pretrained(folder)
    backbone = Backbone(str(folder), device="cpu")
    features, _ = backbone.encode(photos(side=backbone.source.image_size))
    dead = features.std(axis=1) == 0  # channels that a ReLU closes
    assert dead.mean() < (0.25 if isinstance(model, hf.ResNetModel | hf.MobileNetV2Model) else 1e-9)
    np.testing.assert_allclose(features[:, -1], features[:, :-1].mean(1), rtol=2e-3, atol=5e-3)
    return backbone, features[:, :-1].astype(np.float32)


def hidden(model: Any, **inputs: torch.Tensor) -> NDArray[np.float32]:
    with torch.no_grad():
        found: NDArray[np.float32] = model(**inputs).last_hidden_state.numpy()
    return found


def close(found: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Float32 sums in another order, and rounding to float16."""
    scale = max(1, float(np.abs(wanted).max()))
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-3 * scale)


def plain(side: int) -> hf.CLIPImageProcessor:
    return hf.CLIPImageProcessor(size={"height": side, "width": side}, do_center_crop=False)


NAFLEX = hf.Siglip2ImageProcessor(patch_size=8, max_num_patches=16)
BLIP = hf.BlipImageProcessor(size={"height": SIDE, "width": SIDE})
LEVIT = hf.LevitImageProcessor(size={"shortest_edge": 128}, do_resize=False, do_center_crop=False)
# Preprocessing of a network, cells a side, and tokens before the patches.
Family = tuple[Any, int, int]
FAMILIES: dict[str, Family] = {
    "vit": (plain(SIDE), 4, 1),
    "dinov2-registers": (plain(SIDE), 4, 5),
    "siglip": (plain(SIDE), 4, 0),
    "siglip2": (NAFLEX, 4, 0),
    "siglip2-vision": (NAFLEX, 4, 0),
    "blip": (BLIP, 4, 1),
    "blip-vision": (BLIP, 4, 1),
    "clip": (plain(SIDE), 4, 1),
    "swin": (plain(SIDE), 4, 0),
    "dinov3": (DINO_FILE, 4, 5),
    "dinov3-convolutions": (DINO_FILE | {"size": SQUARE}, 2, 1),
    "resnet": (plain(64), 8, 0),
    "mobilenet": (plain(64), 2, 0),
    "mobilevit": (hf.MobileViTImageProcessor(size=SQUARE, do_center_crop=False), 2, 0),
    "levit": (LEVIT, 2, 0),
}
changes: list[dict[str, Any]] = [{}, {"rescale_offset": True}, {"include_top": False}]
for changed in changes:
    resizing = hf.EfficientNetImageProcessor(size=SQUARE, **changed)
    FAMILIES[" ".join(["efficientnet", *changed])] = (resizing, 2, 0)


def normalised(side: int) -> torch.Tensor:
    values = photos(side=side) / 255 - np.array(DINO_FILE["image_mean"])
    values = values / np.array(DINO_FILE["image_std"])
    return torch.from_numpy(values.transpose(0, 3, 1, 2).astype(np.float32))


@pytest.mark.parametrize("name", FAMILIES)
def test_networks_see_what_their_own_preprocessing_gives(tmp_path: Path, name: str) -> None:
    """Cells row by row, without the tokens before them."""
    processor, side, prefix = FAMILIES[name]
    model = sized(NETWORKS[name.split()[0]]())
    backbone, features = encoded(tmp_path, processor, model)
    assert backbone.grid == (side, side)
    assert backbone.source.kind == ("patch" if side == 4 or name == "levit" else "grid")
    shown = backbone.source.image_size
    inputs = {"pixel_values": normalised(shown)}
    if not isinstance(processor, dict):
        inputs = processor(list(photos(side=shown)), return_tensors="pt")
    wanted = hidden(getattr(model, "vision_model", model), **inputs)
    if wanted.ndim == 4:
        wanted = wanted.reshape(*wanted.shape[:2], -1).transpose(0, 2, 1)
    close(features, wanted[:, prefix:])


def test_the_side_of_naflex_is_a_multiple_of_its_patches(tmp_path: Path) -> None:
    encoded(tmp_path, NAFLEX, sized(NETWORKS["siglip2"]()))
    assert Backbone(str(tmp_path), image_size=48, device="cpu").grid == (6, 6)
    with pytest.raises(InputError, match=r"36 pixels \(it needs a multiple of 8\); use another --"):
        Backbone(str(tmp_path), image_size=36, device="cpu")


UNNAMED = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], num_labels=4)


@pytest.mark.parametrize(
    ("make", "labels", "reason"),
    [
        (NETWORKS["bert"], 0, "BertModel is not a vision model"),
        (NETWORKS["vjepa2"], 0, "is not a vision model"),
        (NETWORKS["vit-mae"], 0, "do not form a square grid"),
        (NETWORKS["resnet"], 3, "lacks the weights classifier.*leave out --labels"),
        (lambda: hf.ResNetForImageClassification(UNNAMED), 3, "does not name its classes"),
    ],
)
def test_networks_that_do_not_fit_are_refused_in_words(
    tmp_path: Path, make: Callable[[], Any], labels: int, reason: str
) -> None:
    folder = save(make(), tmp_path)
    with pytest.raises(InputError, match=reason):
        Backbone(str(folder), labels=labels, device="cpu")
    with pytest.raises(InputError, match="nowhere"):
        Backbone(str(tmp_path / "nowhere"), device="cpu")


@pytest.mark.parametrize(
    ("arguments", "grid", "reason"),
    [
        (("pixels", None, 64), 5, "--grid 5: pixels gives 4 x 4 cells at 64 pixels"),
        (("pixels", None, 100), None, "multiple of 16"),
        ((None, DetectorSettings("some")), 5, "--grid is for cells of a --backbone"),
    ],
)
def test_grids_that_do_not_fit_are_refused(arguments: Any, grid: int | None, reason: str) -> None:
    load = partial(load_extractor, grid=grid)
    with pytest.raises(InputError, match=reason):
        load(*arguments)


# ---- networks of timm, with stand-ins for its own ------------------------------------------------

PUBLISHED: dict[str, Any] = {
    "mean": [0.1, 0.2, 0.3],
    "std": [0.4, 0.5, 0.6],
    "input_size": [3, SIDE, SIDE],
    "interpolation": "bilinear",
}


def write_config(folder: Path, architecture: str, **values: Any) -> Path:
    folder.mkdir(exist_ok=True)
    config = {"architecture": architecture, "model_type": "timm_wrapper", "num_classes": 0}
    (folder / "config.json").write_text(json.dumps(config | values))
    return folder


def test_preprocessing_is_that_of_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "timm", ModuleType("timm"))
    assert pretrained.timm_processor(str(write_config(tmp_path, "resnet18"))) is None
    folder = str(write_config(tmp_path, "resnet18", pretrained_cfg=PUBLISHED))
    found = pretrained.load_preprocessing(folder, None)
    assert (found.side, found.resample, found.scale) == (SIDE, Image.Resampling.BILINEAR, 1 / 255)
    assert found.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert found.std.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])
    assert pretrained.load_preprocessing(folder, 48).side == 48
    write_config(tmp_path, "resnet18", pretrained_cfg=PUBLISHED | {"interpolation": "random"})
    with pytest.raises(InputError, match=r"config\.json: pretrained_cfg has no usable '"):
        pretrained.timm_processor(folder)
    hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**SMALL)).save_pretrained(tmp_path)
    broken = {name: value for name, value in DINO_FILE.items() if name != "image_std"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(broken))
    with pytest.raises(InputError, match=r"preprocessor_config\.json.* has no usable 'image_std'"):
        Backbone(folder, device="cpu")


def test_a_missing_or_broken_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(write_config(tmp_path, "resnet18", pretrained_cfg=PUBLISHED))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "timm", None)
        with pytest.raises(InputError, match=r"timm is not installed.*\[timm\]"):
            Backbone(folder, device="cpu")

    def broken(module: str) -> Any:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(pretrained, "require", broken)
    with pytest.raises(InputError, match=r"torchvision::nms does not exist\): install the torchv"):
        Backbone(folder, device="cpu")


class Wrapped(nn.Module):
    """What `TimmWrapperModel` looks like, with an output of any shape."""

    def __init__(self, hidden: Tensor, **network: Any) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="timm_wrapper")
        self.hidden = hidden
        self.timm_model = SimpleNamespace(**network)

    def forward(self, pixel_values: Tensor) -> Any:
        assert pixel_values.shape[-1] == SIDE, "Input height doesn't match model"
        return SimpleNamespace(last_hidden_state=self.hidden)


def hidden_state(hidden: Tensor, side: int = SIDE, **network: Any) -> Tensor:
    pixels = torch.zeros(1, 3, side, side)
    found: Tensor = pretrained.TimmVision(Wrapped(hidden, **network))(pixels).last_hidden_state
    return found


def test_outputs_have_one_of_two_layouts() -> None:
    maps, tokens = torch.rand(1, 8, 2, 4), torch.rand(1, 14, 8)
    assert torch.equal(hidden_state(maps), maps)
    assert torch.equal(hidden_state(maps.permute(0, 2, 3, 1), output_fmt="NHWC"), maps)
    assert torch.equal(hidden_state(tokens, num_prefix_tokens=5), tokens[:, 5:])
    assert torch.equal(hidden_state(tokens[:, 5:]), tokens[:, 5:])
    with pytest.raises(ValueError, match="13 tokens do not form a square"):
        hidden_state(tokens, num_prefix_tokens=1)
    with pytest.raises(ValueError, match="Input height doesn't match"):
        hidden_state(maps, side=16)


def test_a_wrapped_network_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_config(tmp_path, "resnet18")
    (folder / "model.safetensors").touch()

    class Loader:
        @staticmethod
        def from_pretrained(name: str, **options: Any) -> tuple[Wrapped, dict[str, Any]]:
            return Wrapped(torch.zeros(1, 8, 2, 2)), {"missing_keys": [], "mismatched_keys": []}

    for task in ("a vision model", "an image classifier"):
        monkeypatch.setitem(pretrained.TASKS, task, Loader)
    assert isinstance(pretrained.load_model(str(folder)), pretrained.TimmVision)
    with pytest.raises(InputError, match="networks of timm name no classes here; leave out --lab"):
        pretrained.load_model(str(folder), "an image classifier")
