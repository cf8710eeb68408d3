"""Vision networks inside a model, and the folder of photos that they see."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.extract.photos import Crop
from sparta.features.record import FeatureSource
from sparta.networks.backbone import Backbone
from sparta.vse.batch import PixelBatch, RegionBatch, collate_pixels
from sparta.vse.encoders import PhotoFolder, vision_part, vision_source
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel
from tests.sparta.extract.tiny_networks import NETWORKS, SIDE, noisy, photos, prepared, save
from tests.sparta.vse.models import CAPTIONS, SENTENCES, SMALL

# Vectors of a photo: a transformer's CLS, registers and 4 x 4 patches, or a CNN's 4 x 4 cells.
PUBLISHED = {"vit": 17, "dinov2-registers": 21, "clip": 17, "resnet": 16}


def pixels(side: int = SIDE) -> PixelBatch:
    return PixelBatch(torch.from_numpy(photos(side=side)).permute(0, 3, 1, 2))


def seeing(folder: Path, source: FeatureSource | None = None, **options: Any) -> VseModel:
    """A model with the network of a folder, by default over the features that it gives."""
    torch.manual_seed(0)
    source = source or Backbone(str(folder), device="cpu").source
    return from_captions(CAPTIONS, source, vision=folder, **SMALL, **options).eval()


def test_pixels_of_a_batch_are_contiguous() -> None:
    """Small CNNs crash in oneDNN on channels that come last."""
    assert collate_pixels([*photos()]).pixels.is_contiguous()


@pytest.mark.parametrize("side", [SIDE, 2 * SIDE])
@pytest.mark.parametrize("name", PUBLISHED)
def test_photos_give_the_regions_that_are_stored(name: str, side: int, tmp_path: Path) -> None:
    """A model that is saved has its network, as fine-tuning left it."""
    folder = save(NETWORKS[name](), tmp_path / "network")
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
        for parameter in model.vision.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "model")
    for file in folder.iterdir():
        file.unlink()
    loaded = VseModel.from_pretrained(tmp_path / "model")
    assert_close(loaded.encode_images(pixels(side)), model.encode_images(pixels(side)))
    assert_close(loaded.embed_texts(SENTENCES), model.embed_texts(SENTENCES))


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_code_pools_what_the_network_gives(name: str, tmp_path: Path) -> None:
    """No mean behind a CNN's cells, and a transformer's CLS before its patches."""
    network = NETWORKS[name]().eval()
    model = seeing(save(network, tmp_path), vision_vectors="output")
    with torch.no_grad():
        expected = vision_part(network)(pixel_values=prepared(photos())).last_hidden_state
        if name == "resnet":
            expected = torch.stack([image.reshape(12, -1).T for image in expected])
        found = model.look(pixels())
    assert_close(found.regions, expected, rtol=1e-4, atol=1e-4)
    assert found.lengths.tolist() == [PUBLISHED[name]] * 2


def test_a_source_of_other_vectors_is_refused(tmp_path: Path) -> None:
    folder = save(NETWORKS["vit"](), tmp_path)
    source = FeatureSource("patch", str(folder), "abc", 24, SIDE)
    with pytest.raises(InputError, match="gives vectors of 16 numbers, the feature source has 24"):
        seeing(folder, source)


def test_only_cells_need_a_square_grid(tmp_path: Path) -> None:
    folder = save(NETWORKS["vit"](), tmp_path)
    wide = PixelBatch(torch.zeros(1, 3, SIDE, 2 * SIDE))
    assert seeing(folder, vision_vectors="output").look(wide).lengths.tolist() == [33]
    model = seeing(folder)
    with pytest.raises(InputError, match="33 tokens for 64 x 32 pixels form no square grid"):
        model.encode_images(wide)


SOURCE = FeatureSource("grid", "network", "abc", 5, 16, extra={"resample": 2})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return noisy(tmp_path / "photos", "b.png", "a.png", "sub/c.png", size=(36, 24))


def test_a_network_that_cannot_be_trained_here_is_refused() -> None:
    message = r"vision: efficientnet-lite2 cannot be trained .* data\.backbone=efficientnet-lite2"
    with pytest.raises(InputError, match=message):
        vision_source("efficientnet-lite2")


def test_part_of_a_photo(folder: Path) -> None:
    assert PhotoFolder(folder, SOURCE).ids == ["a.png", "b.png", "sub/c.png"]
    photos = PhotoFolder(folder, SOURCE, ["b.png"])
    with Image.open(folder / "b.png") as picture:
        part = picture.resize((16, 16), Image.Resampling.BILINEAR, (9, 6, 36, 24))
    found = photos.show(0, Crop((0.25, 0.25, 1.0, 1.0), True))
    np.testing.assert_array_equal(found, np.asarray(part)[:, ::-1])
    with pytest.raises(KeyError):
        photos.index("a.png")
    (folder / "d.jpg").write_text("no photo")
    with pytest.raises(InputError, match=r"d\.jpg: not an image"):
        PhotoFolder(folder, SOURCE)[2]
