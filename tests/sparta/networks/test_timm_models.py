"""Networks of timm, with stand-ins for its own."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from sparta.errors import InputError
from sparta.networks import pretrained
from sparta.networks.backbone import Backbone
from tests.sparta.extract.tiny_networks import SIDE

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
