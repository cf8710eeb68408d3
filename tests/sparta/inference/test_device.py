import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import torch

import sparta.inference.device
from sparta.inference.device import on_cpu


def no_torch(name: str) -> str:
    raise PackageNotFoundError(name)


@pytest.mark.parametrize(
    ("platform", "build", "driver", "gpu", "cpu"),
    [
        ("linux", "2.13.0+cpu", True, True, True),
        ("linux", "2.13.0", False, True, True),
        ("linux", "2.13.0", True, False, True),
        ("linux", "2.13.0", True, True, False),
        ("darwin", "2.13.0", False, True, False),
        ("darwin", "2.13.0", False, False, True),
    ],
)
def test_torch_is_asked_only_where_there_may_be_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    platform: str,
    build: str,
    driver: bool,
    gpu: bool,
    cpu: bool,
) -> None:
    file = tmp_path / "driver"
    if driver:
        file.touch()
    module = sparta.inference.device
    monkeypatch.setattr(module, "GPU_FILES", (file,))
    monkeypatch.setattr(module, "version", lambda name: build)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu and platform == "linux")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: gpu and platform == "darwin")
    assert on_cpu("auto") is cpu


def test_without_torch_there_is_only_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparta.inference.device, "version", no_torch)
    assert on_cpu("auto")


def test_a_device_can_be_named() -> None:
    assert on_cpu("cpu")
    assert not on_cpu("cuda")
