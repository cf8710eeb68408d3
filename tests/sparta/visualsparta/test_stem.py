"""The convolutional stem: it sees the photo that the patches make up, and keeps its places."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from sparta.errors import InputError
from sparta.features.extract.extractor import grid_boxes
from sparta.features.extract.networks.pixel_patches import PixelPatches
from sparta.features.record import ImageFeatures
from sparta.inference.convert import convert
from sparta.inference.runtime import Network
from sparta.visualsparta.init_bert import from_config
from sparta.visualsparta.model import VisualSparta
from sparta.visualsparta.stem import ConvolutionalStem
from tests import tiny

SIDE = 48
WIDTHS = [4, 6, 8]
SOURCE = PixelPatches(SIDE).source


def patches(pixels: np.ndarray) -> Tensor:
    return torch.from_numpy(PixelPatches(SIDE).encode(pixels)[0]).float()


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (2, SIDE, SIDE, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def stem() -> ConvolutionalStem:
    torch.manual_seed(0)
    return ConvolutionalStem(WIDTHS).eval()


def test_it_reads_the_photo(stem: ConvolutionalStem, pixels: np.ndarray) -> None:
    photo = (torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1).half().float()
    with torch.no_grad():
        found, expected = stem(patches(pixels)), stem.layers(photo)
    assert expected.shape == (2, 8, 3, 3)
    assert found.shape == (2, 10, 8)
    for row in range(3):
        for column in range(3):
            assert_close(found[:, 3 * row + column], expected[:, :, row, column])
    assert_close(found[:, 9], expected.mean(dim=(2, 3)))


def test_regions_must_be_a_square_and_the_whole(stem: ConvolutionalStem) -> None:
    with pytest.raises(ValueError, match="8 regions are not a square"):
        stem(torch.zeros(1, 8, 768))


def test_a_converted_stem_reads_any_number_of_photos(
    stem: ConvolutionalStem, pixels: np.ndarray, tmp_path: Path
) -> None:
    squares = patches(pixels)
    convert(stem, [squares], tmp_path / "network.xml", batches=True)
    network = Network(tmp_path / "network.xml")
    with torch.no_grad():
        expected = stem(squares)
    for count in (1, 2, 3):
        several = squares[[0, 1, 0][:count]]
        found = torch.from_numpy(network([[several.numpy()]])[0][0])
        assert_close(found, expected[[0, 1, 0][:count]], atol=1e-5, rtol=1e-4)


def model(**options: object) -> VisualSparta:
    return from_config(tiny.encoder(), tiny.tokenizer(), SOURCE, stem=WIDTHS, **options)


def test_a_model_with_a_stem_is_saved_and_loaded(tmp_path: Path, pixels: np.ndarray) -> None:
    images = [
        ImageFeatures(f"{i}", rows, grid_boxes(3, 3), ("",) * 10, ("",) * 10, SIDE, SIDE)
        for i, rows in enumerate(PixelPatches(SIDE).encode(pixels)[0])
    ]
    made = model(use_labels=False).train()
    made.term_scores(tiny.batch(images))  # running means and deviations move
    made.eval().save_pretrained(tmp_path)
    loaded = VisualSparta.from_pretrained(tmp_path)
    assert loaded.config.stem == WIDTHS
    scores = made.term_scores(tiny.batch(images)).scores
    assert scores.any()
    assert torch.equal(loaded.term_scores(tiny.batch(images)).scores, scores)


def test_a_stem_needs_pixels() -> None:
    with pytest.raises(InputError, match="raw pixel patches, these are region features"):
        from_config(tiny.encoder(), tiny.tokenizer(), tiny.source(), stem=WIDTHS)


def test_a_stem_needs_the_whole_photo() -> None:
    with pytest.raises(InputError, match=r"set model\.options\.max_regions to 10"):
        model(max_regions=9)
