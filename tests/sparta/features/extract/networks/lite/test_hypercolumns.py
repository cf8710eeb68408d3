from colorsys import rgb_to_hsv
from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sparta.features.extract.networks.lite.backbone import (
    Hypercolumns,
    LiteBackbone,
    LitePhotoNetwork,
    colours,
)
from sparta.features.extract.networks.lite.network import EfficientNetLite
from sparta.features.extract.networks.lite.weights import SCALES, is_lite
from tests.sparta.features.extract.networks.lite.published import weights_file

NAME = "efficientnet-lite2-hypercolumns"


def reference(rgb: list[float]) -> list[float]:
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
        expected = reference(pixels[0, :, row, column].tolist())
        np.testing.assert_allclose(found[0, :20, row, column], expected, atol=1e-5)
    np.testing.assert_allclose(found[:, :20].sum(1), 1, atol=1e-5)


def test_changes_of_brightness() -> None:
    value = torch.tensor([[0.0, 0.5], [0.25, 0.25]])
    found = colours(value.expand(1, 3, 2, 2))
    assert found[0, 20].tolist() == [[2, 0], [0, 0]]
    assert found[0, 21].tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("rgb", "channel"),
    [((1, 0, 0), 0), ((0, 1, 1), 4), ((0.3, 0, 0), 8), ((0, 0, 0), 16), ((1, 1, 1), 19)],
)
def test_a_pure_colour_has_one_channel(rgb: tuple[float, float, float], channel: int) -> None:
    found = colours(torch.tensor(rgb).float()[None, :, None, None])
    assert found[0, :20, 0, 0].tolist() == [float(number == channel) for number in range(20)]


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


def test_the_last_stage_leads_to_the_networks_own_map() -> None:
    network = EfficientNetLite(SCALES["efficientnet-lite1"]).eval()
    pixels = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        stages = network.stages(pixels)
        assert torch.equal(network.head(stages[-1]), network(pixels))
    assert [one.shape[1] for one in stages] == network.channels == [16, 24, 40, 80, 112, 192, 320]


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


def test_only_known_networks_have_them() -> None:
    assert is_lite(NAME)
    assert is_lite("efficientnet-lite0")
    assert not is_lite("efficientnet-lite3-hypercolumns")
    assert LitePhotoNetwork(EfficientNetLite(SCALES["efficientnet-lite0"]), None).dimension == 1280
