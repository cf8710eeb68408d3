"""Backbones of transformers, patches of pixels, and grids that are pooled."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

from sparta.errors import InputError
from sparta.extract.extractor import PooledGrid, load_extractor, load_extractor_of
from sparta.extract.job import extract_photos
from sparta.features.record import DetectorSettings, extract_command
from sparta.features.store import FeatureStore
from sparta.networks.backbone import Backbone
from sparta.networks.encoder import PixelPatches, weights_hash
from tests import tiny
from tests.sparta.extract.tiny_networks import RESNET, SIDE, SMALL, photos, prepared, save


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


def test_labels_need_a_trained_classifier(tmp_path: Path) -> None:
    bare = save(hf.ResNetModel(hf.ResNetConfig(**RESNET)), tmp_path / "bare")
    with pytest.raises(InputError, match=r"lacks the weights classifier.*leave out --labels"):
        Backbone(str(bare), labels=3, device="cpu")
    unnamed = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 12], depths=[1, 1], num_labels=4)
    folder = save(hf.ResNetForImageClassification(unnamed), tmp_path / "unnamed")
    with pytest.raises(InputError, match="does not name its classes"):
        Backbone(str(folder), labels=3, device="cpu")


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


def test_refuses_what_is_no_vision_network(tmp_path: Path) -> None:
    folder = save(hf.BertModel(tiny.encoder()), tmp_path / "bert")
    with pytest.raises(InputError, match="BertModel is not a vision model"):
        Backbone(str(folder), device="cpu")
    with pytest.raises(InputError, match="nowhere"):
        Backbone(str(tmp_path / "nowhere"), device="cpu")


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


def test_grids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match="--grid 5: pixels gives 4 x 4 cells at 64 pixels"):
        load_extractor("pixels", None, 64, grid=5)
    with pytest.raises(InputError, match="multiple of 16"):
        load_extractor("pixels", None, 100)
    with pytest.raises(InputError, match="--grid is for cells of a --backbone"):
        load_extractor(None, DetectorSettings("some"), grid=5)
