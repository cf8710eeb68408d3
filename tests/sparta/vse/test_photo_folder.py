from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTModel

from sparta.errors import InputError
from sparta.features.extract.augmentations import Crop
from sparta.features.record import FeatureSource
from sparta.vse.init import from_captions
from sparta.vse.model import VseModel
from sparta.vse.photo_folder import PhotoFolder, vision_source
from tests.sparta.features.extract.tiny_networks import SIDE, save
from tests.sparta.features.extract.tiny_networks import SMALL as NETWORK
from tests.sparta.vse.models import CAPTIONS, SMALL

SOURCE = FeatureSource("grid", "network", "abc", 5, 16, extra={"resample": 2})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name in ("b", "a", "sub/c"):
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(exist_ok=True, parents=True)
        Image.fromarray(rng.integers(0, 255, (24, 36, 3), np.uint8)).save(path)
    return tmp_path / "photos"


def test_a_photo_is_stretched_as_the_source_says(folder: Path) -> None:
    photos = PhotoFolder(folder, SOURCE)
    assert (len(photos), photos.ids) == (3, ["a.png", "b.png", "sub/c.png"])
    assert [photos.index(image_id) for image_id in photos.ids] == [0, 1, 2]
    with Image.open(folder / "sub" / "c.png") as picture:
        expected = np.asarray(picture.resize((16, 16), Image.Resampling.BILINEAR))
    np.testing.assert_array_equal(photos[2], expected)
    assert not np.array_equal(photos[2], photos[1])


def test_a_network_that_cannot_be_trained_here_is_refused() -> None:
    message = r"vision: efficientnet-lite2 cannot be trained .* data\.backbone=efficientnet-lite2"
    with pytest.raises(InputError, match=message):
        vision_source("efficientnet-lite2")


def test_part_of_a_photo(folder: Path) -> None:
    photos = PhotoFolder(folder, SOURCE, ["b.png"])
    with Image.open(folder / "b.png") as picture:
        part = picture.resize((16, 16), Image.Resampling.BILINEAR, (9, 6, 36, 24))
    found = photos.show(0, Crop((0.25, 0.25, 1.0, 1.0), True))
    np.testing.assert_array_equal(found, np.asarray(part)[:, ::-1])
    with pytest.raises(KeyError):
        photos.index("a.png")


@pytest.mark.parametrize("workers", [0, 1])
def test_photos_that_cannot_be_read_are_named(folder: Path, workers: int) -> None:
    (folder / "b.png").write_bytes((folder / "b.png").read_bytes()[:500])
    (folder / "d.jpg").write_text("no photo")
    photos = PhotoFolder(folder, SOURCE)
    skipped = photos.unreadable(workers)
    assert [entry.image_id for entry in skipped] == ["b.png", "d.jpg"]
    assert skipped[1].reason == "not an image, or of an unknown format"
    with pytest.raises(InputError, match=r"d\.jpg: not an image"):
        photos[photos.index("d.jpg")]


def test_a_folder_without_photos_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no photo"):
        PhotoFolder(tmp_path, SOURCE)


def seeing(tmp_path: Path) -> VseModel:
    torch.manual_seed(0)
    vit = ViTModel(ViTConfig(**NETWORK), add_pooling_layer=False)
    network = str(save(vit, tmp_path / "network", resample=2))
    return from_captions(CAPTIONS, vision_source(network), vision=network, **SMALL).eval()


def test_a_saved_model_says_how_it_wants_its_photos(folder: Path, tmp_path: Path) -> None:
    seeing(tmp_path).save_pretrained(tmp_path / "model")
    loaded = VseModel.from_pretrained(tmp_path / "model")
    source = FeatureSource(**loaded.config.feature_source)
    assert (source.kind, source.image_size, source.extra) == ("patch", SIDE, {"resample": 2})
    assert PhotoFolder(folder, source)[0].shape == (SIDE, SIDE, 3)
