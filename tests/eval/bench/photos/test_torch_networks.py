from pathlib import Path

import numpy as np
import pytest

from eval.bench.photos.torch_networks import torch_extractor
from sparta.features.extract.extractor import load_extractor
from sparta.features.extract.photos import Photo
from sparta.features.record import FeatureSource
from tests.sparta.features.extract.tiny_networks import clip, save


@pytest.mark.parametrize(("name", "side", "grid"), [("clip", 32, None), ("lite", 96, 2)])
def test_the_reference_gives_the_commands_features(
    tmp_path: Path, name: str, side: int, grid: int | None
) -> None:
    backbone = str(save(clip(), tmp_path)) if name == "clip" else "efficientnet-lite2"
    extractor = load_extractor(backbone, None, side, device="cpu", grid=grid)
    reference = torch_extractor(extractor.source)
    assert reference is not None
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    (own,), (expected,) = (use([Photo("a", pixels, 10, 10)]) for use in (extractor, reference))
    np.testing.assert_allclose(own.features, expected.features, atol=2e-3)
    np.testing.assert_array_equal(own.boxes, expected.boxes)


def test_pixels_and_detectors_have_no_reference() -> None:
    assert torch_extractor(FeatureSource("pixels", "pixels", "", 768, 32)) is None
