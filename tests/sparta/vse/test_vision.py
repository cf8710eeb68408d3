from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import (
    BertModel,
    CLIPImageProcessor,
    Dinov2WithRegistersConfig,
    Dinov2WithRegistersModel,
    ResNetConfig,
    ResNetModel,
    ViTConfig,
    ViTModel,
)

from sparta.errors import InputError
from sparta.features.extract.networks.backbone import Backbone
from sparta.features.record import FeatureSource
from sparta.vse.batch import PixelBatch, RegionBatch
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel
from sparta.vse.vision import vision_part
from tests import tiny
from tests.sparta.features.extract.tiny_networks import RESNET, SIDE, clip, photos, save
from tests.sparta.features.extract.tiny_networks import SMALL as NETWORK
from tests.sparta.vse.models import CAPTIONS, SENTENCES, SMALL

NETWORKS: dict[str, Any] = {
    "vit": lambda: ViTModel(ViTConfig(**NETWORK), add_pooling_layer=False),
    "dinov2-registers": lambda: Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**NETWORK)),
    "clip": clip,
    "resnet": lambda: ResNetModel(ResNetConfig(**RESNET)),
}


def pixels(side: int = SIDE) -> PixelBatch:
    return PixelBatch(torch.from_numpy(photos(side=side)).permute(0, 3, 1, 2))


def seeing(folder: Path, source: FeatureSource, **options: Any) -> VseModel:
    torch.manual_seed(0)
    return from_captions(CAPTIONS, source, vision=folder, **SMALL, **options).eval()


@pytest.mark.parametrize("side", [SIDE, 2 * SIDE])
@pytest.mark.parametrize("name", NETWORKS)
def test_photos_give_the_regions_extraction_would_store(
    name: str, side: int, tmp_path: Path
) -> None:
    folder = save(NETWORKS[name](), tmp_path)
    backbone = Backbone(str(folder), image_size=side, device="cpu")
    model = seeing(folder, backbone.source)
    assert model.config.visual == backbone.source.kind
    assert model.vision is not None
    stored = torch.from_numpy(backbone.encode(photos(side=side))[0])
    with torch.no_grad():
        assert_close(model.vision(pixels(side).pixels), stored.float(), rtol=2e-3, atol=2e-3)
        lengths = torch.full((2,), stored.shape[1])
        found = model.encode_images(pixels(side))
        assert_close(found, model.encode_images(RegionBatch(stored, lengths)), rtol=0.01, atol=0.01)


# Vectors of a photo: a transformer's CLS, registers and 4 x 4 patches, or a CNN's 4 x 4 cells.
PUBLISHED = {"vit": 17, "dinov2-registers": 21, "clip": 17, "resnet": 16}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_published_code_pools_what_the_network_gives(name: str, tmp_path: Path) -> None:
    """No mean behind a CNN's cells, and a transformer's CLS before its patches."""
    network = NETWORKS[name]().eval()
    folder = save(network, tmp_path)
    model = seeing(folder, Backbone(str(folder), device="cpu").source, vision_vectors="output")
    processor = CLIPImageProcessor()
    mean, std = (
        torch.tensor(values)[:, None, None]
        for values in (processor.image_mean, processor.image_std)
    )
    values = (pixels().pixels / 255 - mean) / std
    with torch.no_grad():
        expected = vision_part(network)(pixel_values=values).last_hidden_state
        if name == "resnet":
            expected = torch.stack([image.reshape(12, -1).T for image in expected])
        found = model.look(pixels())
    assert_close(found.regions, expected, rtol=1e-4, atol=1e-4)
    assert found.lengths.tolist() == [PUBLISHED[name]] * 2
    model.save_pretrained(tmp_path / "model")
    loaded = VseModel.from_pretrained(tmp_path / "model")
    assert_close(loaded.encode_images(pixels()), model.encode_images(pixels()))


def test_the_network_s_output_needs_no_square_grid(tmp_path: Path) -> None:
    folder = save(NETWORKS["vit"](), tmp_path)
    source = Backbone(str(folder), device="cpu").source
    model = seeing(folder, source, vision_vectors="output")
    wide = PixelBatch(torch.zeros(1, 3, SIDE, 2 * SIDE))
    assert model.look(wide).lengths.tolist() == [33]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_is_saved_with_the_model(name: str, tmp_path: Path) -> None:
    folder = save(NETWORKS[name](), tmp_path / "network")
    model = seeing(folder, Backbone(str(folder), device="cpu").source)
    assert model.vision is not None
    with torch.no_grad():
        for parameter in model.vision.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))  # as fine-tuning would
    model.save_pretrained(tmp_path / "model")
    for file in folder.iterdir():
        file.unlink()
    loaded = VseModel.from_pretrained(tmp_path / "model")
    assert_close(loaded.encode_images(pixels()), model.encode_images(pixels()))
    assert_close(loaded.embed_texts(SENTENCES), model.embed_texts(SENTENCES))


def test_batch_norms_keep_their_statistics_in_training(tmp_path: Path) -> None:
    folder = save(NETWORKS["resnet"](), tmp_path)
    model = seeing(folder, Backbone(str(folder), device="cpu").source).train()
    assert model.vision is not None
    norms = [part for part in model.vision.modules() if isinstance(part, nn.BatchNorm2d)]
    before = [norm.running_mean.clone() for norm in norms if norm.running_mean is not None]
    model.encode_images(pixels())
    assert before
    for norm, mean in zip(norms, before, strict=True):
        assert norm.running_mean is not None
        assert torch.equal(norm.running_mean, mean)
    assert model.vision.training and model.vision.network.training
    with torch.no_grad():
        found = model.vision(pixels().pixels)
        assert_close(found, model.eval().vision(pixels().pixels))


def test_a_source_of_other_vectors_is_refused(tmp_path: Path) -> None:
    folder = save(NETWORKS["vit"](), tmp_path)
    source = FeatureSource("patch", str(folder), "abc", 24, SIDE)
    with pytest.raises(InputError, match="gives vectors of 16 numbers, the feature source has 24"):
        seeing(folder, source)


def test_a_network_of_words_is_refused(tmp_path: Path) -> None:
    folder = save(BertModel(tiny.encoder()), tmp_path)
    with pytest.raises(InputError, match="BertModel is not a vision model"):
        seeing(folder, tiny.source())


def test_tokens_without_a_square_grid_are_refused(tmp_path: Path) -> None:
    folder = save(NETWORKS["vit"](), tmp_path)
    model = seeing(folder, Backbone(str(folder), device="cpu").source)
    wide = PixelBatch(torch.zeros(1, 3, SIDE, 2 * SIDE))
    with pytest.raises(InputError, match="33 tokens for 64 x 32 pixels form no square grid"):
        model.encode_images(wide)
