import numpy as np
import pytest

from sparta.errors import InputError
from sparta.features.extract.networks.pixel_patches import PixelPatches


def test_patches_are_squares_of_the_photo() -> None:
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
    assert features.min() >= -1
    assert features.max() <= 1


def test_the_whole_photo_is_shrunk() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), np.uint8)
    whole = PixelPatches(32).encode(pixels)[0][0, -1].reshape(16, 16, 3)
    for y, x in ((0, 0), (3, 9), (15, 15)):
        block = pixels[0, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2].astype(np.float32)
        np.testing.assert_allclose(whole[y, x], block.mean((0, 1)) / 127.5 - 1, atol=1e-3)


def test_sizes() -> None:
    assert PixelPatches().grid == (7, 7)
    assert PixelPatches().source.dimension == 768
    with pytest.raises(InputError, match="multiple of 16"):
        PixelPatches(100)
