"""Networks of timm: with stand-ins everywhere, and with timm itself where it is installed."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.networks import pretrained
from sparta.networks.backbone import Backbone
from tests.sparta.extract.tiny_networks import SIDE, photos

PUBLISHED: dict[str, Any] = {
    "mean": [0.1, 0.2, 0.3],
    "std": [0.4, 0.5, 0.6],
    "input_size": [3, SIDE, SIDE],
    "interpolation": "bilinear",
}


def write_config(folder: Path, architecture: str, **values: Any) -> Path:
    folder.mkdir(exist_ok=True)
    config = {"architecture": architecture, "model_type": "timm_wrapper", "num_classes": 0}
    (folder / "config.json").write_text(json.dumps(config | values))
    return folder


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", ModuleType("timm"))


@pytest.mark.usefixtures("installed")
def test_preprocessing_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    folder = write_config(tmp_path, "resnet18", pretrained_cfg=PUBLISHED)
    found = pretrained.load_preprocessing(str(folder), None)
    assert (found.side, found.resample, found.scale) == (SIDE, Image.Resampling.BILINEAR, 1 / 255)
    assert found.mean.flatten().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert found.std.flatten().tolist() == pytest.approx([0.4, 0.5, 0.6])
    assert pretrained.load_preprocessing(str(folder), 48).side == 48


@pytest.mark.usefixtures("installed")
def test_preprocessing_that_is_not_stated_is_named(tmp_path: Path) -> None:
    for key, value in (("mean", None), ("interpolation", "random")):
        published = {k: v for k, v in (PUBLISHED | {key: value}).items() if v}
        folder = write_config(tmp_path, "resnet18", pretrained_cfg=published)
        with pytest.raises(InputError, match=r"config\.json: pretrained_cfg has no usable '"):
            pretrained.timm_processor(str(folder))


def test_other_checkpoints_are_not_taken_for_timms(tmp_path: Path) -> None:
    assert pretrained.timm_processor(str(tmp_path)) is None
    assert pretrained.timm_processor(str(write_config(tmp_path, "resnet18"))) is None


def test_a_missing_or_broken_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(write_config(tmp_path, "resnet18", pretrained_cfg=PUBLISHED))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "timm", None)
        with pytest.raises(InputError, match=r"timm is not installed.*visualsparta\[timm\]"):
            Backbone(folder, device="cpu")

    def broken(module: str) -> Any:
        raise RuntimeError("operator torchvision::nms does not exist")

    monkeypatch.setattr(pretrained, "require", broken)
    with pytest.raises(InputError, match=r"torchvision::nms does not exist\): install the torchv"):
        Backbone(folder, device="cpu")


class Wrapped(nn.Module):
    """What `TimmWrapperModel` looks like, with an output of any shape."""

    def __init__(self, hidden: Tensor, **network: Any) -> None:
        super().__init__()
        self.config = SimpleNamespace(model_type="timm_wrapper")
        self.hidden = hidden
        self.timm_model = SimpleNamespace(**network)

    def forward(self, pixel_values: Tensor) -> Any:
        assert pixel_values.shape[-1] == SIDE, "Input height doesn't match model"
        return SimpleNamespace(last_hidden_state=self.hidden)


def hidden_state(hidden: Tensor, side: int = SIDE, **network: Any) -> Tensor:
    pixels = torch.zeros(1, 3, side, side)
    found: Tensor = pretrained.TimmVision(Wrapped(hidden, **network))(pixels).last_hidden_state
    return found


def test_outputs_have_one_of_two_layouts() -> None:
    maps, tokens = torch.rand(1, 8, 2, 4), torch.rand(1, 14, 8)
    assert torch.equal(hidden_state(maps), maps)
    assert torch.equal(hidden_state(maps.permute(0, 2, 3, 1), output_fmt="NHWC"), maps)
    assert torch.equal(hidden_state(tokens, num_prefix_tokens=5), tokens[:, 5:])
    assert torch.equal(hidden_state(tokens[:, 5:]), tokens[:, 5:])
    with pytest.raises(ValueError, match="13 tokens do not form a square"):
        hidden_state(tokens, num_prefix_tokens=1)
    with pytest.raises(ValueError, match="Input height doesn't match"):
        hidden_state(maps, side=16)


def test_a_wrapped_network_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_config(tmp_path, "resnet18")
    (folder / "model.safetensors").touch()

    class Loader:
        @staticmethod
        def from_pretrained(name: str, **options: Any) -> tuple[Wrapped, dict[str, Any]]:
            return Wrapped(torch.zeros(1, 8, 2, 2)), {"missing_keys": [], "mismatched_keys": []}

    for task in ("a vision model", "an image classifier"):
        monkeypatch.setitem(pretrained.TASKS, task, Loader)
    assert isinstance(pretrained.load_model(str(folder)), pretrained.TimmVision)
    with pytest.raises(InputError, match="networks of timm name no classes here; leave out --lab"):
        pretrained.load_model(str(folder), "an image classifier")


# ---- with timm itself ---------------------------------------------------------------------------

needs_timm = pytest.mark.skipif(find_spec("timm") is None, reason="timm is not installed")


def save(folder: Path, architecture: str, **options: Any) -> Path:
    """A checkpoint with random weights, as timm publishes them on the hub."""
    from transformers import TimmWrapperConfig, TimmWrapperModel

    torch.manual_seed(0)
    config = TimmWrapperConfig(architecture=architecture, model_args=options, num_labels=0)
    TimmWrapperModel(config).save_pretrained(folder)
    published = PUBLISHED | {"input_size": [3, 64, 64]}
    return write_config(folder, architecture, model_args=options, pretrained_cfg=published)


@needs_timm
@pytest.mark.parametrize(
    ("architecture", "options", "kind", "grid", "dimension"),
    [
        ("resnet18", {}, "grid", 2, 512),
        ("swin_tiny_patch4_window7_224", {"img_size": 64, "depths": [1] * 4}, "grid", 2, 768),
        ("vit_tiny_patch16_224", {"img_size": 64, "depth": 1}, "patch", 4, 192),
        ("deit_tiny_distilled_patch16_224", {"img_size": 64, "depth": 1}, "patch", 4, 192),
    ],
)
def test_networks_of_timm_give_cells(
    tmp_path: Path, architecture: str, options: dict[str, Any], kind: str, grid: int, dimension: int
) -> None:
    from transformers import TimmWrapperModel

    folder = save(tmp_path, architecture, **options)
    backbone = Backbone(str(folder), device="cpu")
    assert (backbone.source.kind, backbone.source.dimension) == (kind, dimension)
    assert (backbone.grid, backbone.source.image_size) == ((grid, grid), 64)
    pixels = np.repeat(np.repeat(photos(), 64 // SIDE, 1), 64 // SIDE, 2)
    features, labels = backbone.encode(pixels)
    assert features.shape == (2, grid * grid + 1, dimension)
    assert labels == ["", ""]
    mean, std = (np.array(PUBLISHED[key], np.float32) for key in ("mean", "std"))
    values = torch.from_numpy(((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)).float()
    with torch.no_grad():
        model = TimmWrapperModel.from_pretrained(folder).eval()
        pooled = model.timm_model.global_pool
        state = model(values).last_hidden_state
    if kind == "grid":
        whole = state.mean((1, 2) if state.shape[-1] == dimension else (2, 3))
    else:
        assert pooled == "token"
        whole = state[:, -grid * grid :].mean(1)
    np.testing.assert_allclose(features[:, -1], whole.numpy(), atol=5e-3, rtol=5e-3)


@needs_timm
def test_what_timm_cannot_do_is_refused(tmp_path: Path) -> None:
    folder = save(tmp_path, "vit_tiny_patch16_224", img_size=64, depth=1)
    with pytest.raises(InputError, match=r"cannot read photos of 80 pixels.*another --image-size"):
        Backbone(str(folder), image_size=80, device="cpu")
