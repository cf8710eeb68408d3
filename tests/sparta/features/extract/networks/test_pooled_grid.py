from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparta.errors import InputError
from sparta.features.extract.detector_settings import DetectorSettings, extract_command
from sparta.features.extract.extractor import PooledGrid, load_extractor, load_extractor_of
from sparta.features.extract.job import extract_photos
from sparta.features.extract.networks.pixel_patches import PixelPatches
from sparta.features.store import FeatureStore


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
    with pytest.raises(InputError, match="--grid is for cells of a --backbone"):
        load_extractor(None, DetectorSettings("some"), grid=5)
