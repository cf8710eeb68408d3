"""The network against the package it was published in for torch, with the published weights."""

from pathlib import Path

import pytest
import torch

from sparta.features.extract.networks.lite.network import EfficientNetLite
from sparta.features.extract.networks.lite.weights import SCALES
from tests.sparta.features.extract.networks.lite.published import reference, weights_file


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("efficientnet-lite0", 224),
        ("efficientnet-lite1", 240),
        ("efficientnet-lite2", 260),
        ("efficientnet-lite2", 97),
    ],
)
def test_equals_the_published_network(name: str, side: int) -> None:
    assert side in (SCALES[name].side, 97)
    values = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.inference_mode():
        expected = reference(name, side).extract_features(values)
        found = EfficientNetLite.from_file(SCALES[name], weights_file(name))(values)
    assert found.shape == expected.shape == (2, 1280, -(-side // 32), -(-side // 32))
    assert expected.std() > 0.1
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    state = torch.load(weights_file("efficientnet-lite0"), weights_only=True)
    torch.save({"_conv_stem.weight": state["_conv_stem.weight"]}, tmp_path / "some.pth")
    with pytest.raises(RuntimeError, match="Missing key"):
        EfficientNetLite.from_file(SCALES["efficientnet-lite0"], tmp_path / "some.pth")
    with pytest.raises(RuntimeError, match="size mismatch"):
        EfficientNetLite.from_file(SCALES["efficientnet-lite2"], weights_file("efficientnet-lite0"))
