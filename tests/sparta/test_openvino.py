"""Networks in OpenVINO: their cache, their device, their outputs."""

import logging
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sparta import inference

KEY = {"network": "some", "side": 8}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VISUALSPARTA_CACHE", str(tmp_path))
    return tmp_path


def make(folder: Path, text: str = "content") -> Mapping[str, Any]:
    (folder / "network.xml").write_text(text)
    (folder / "network.bin").write_bytes(bytes(100))
    return {"grid": [2, 2]}


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert inference.cache_folder() == tmp_path
    monkeypatch.delenv("VISUALSPARTA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert inference.cache_folder() == Path("/xdg/visualsparta")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert inference.cache_folder() == Path("/home/me/.cache/visualsparta")


def test_an_entry_is_found_again_by_its_key_and_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert inference.find_entry(KEY) is None
    added = inference.add_entry(KEY, make)
    assert added == inference.find_entry(KEY)
    assert added[1] == {"grid": [2, 2]}
    assert (added[0] / "network.xml").read_text() == "content"
    assert [path.name for path in (tmp_path / "networks").iterdir()] == [added[0].name]
    assert inference.find_entry({**KEY, "side": 9}) is None
    monkeypatch.setattr(inference, "version", lambda name: "another")
    assert inference.find_entry(KEY) is None


@pytest.mark.parametrize("file", ["network.bin", "description.json", "sha256.json"])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_a_damaged_entry_is_made_again(file: str, damage: str) -> None:
    path = inference.add_entry(KEY, make)[0] / file
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-1] + (b"" if damage == "cut" else b"?"))
    assert inference.find_entry(KEY) is None
    assert inference.add_entry(KEY, make) == inference.find_entry(KEY)
    assert path.read_bytes() == content


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> Mapping[str, Any]:
        make(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        inference.add_entry(KEY, interrupted)
    assert inference.find_entry(KEY) is None
    assert not list((tmp_path / "networks").iterdir())


def test_of_two_processes_the_faster_one_wins(tmp_path: Path) -> None:
    def slower(folder: Path) -> Mapping[str, Any]:
        inference.add_entry(KEY, make)
        return make(folder, "the same, later")

    found, _ = inference.add_entry(KEY, slower)
    assert (found / "network.xml").read_text() == "content"
    assert len(list((tmp_path / "networks").iterdir())) == 1


@pytest.mark.parametrize(
    ("build", "driver", "gpu", "cpu"),
    [
        ("2.13.0+cpu", True, True, True),
        ("2.13.0", False, True, True),
        ("2.13.0", True, False, True),
        ("2.13.0", True, True, False),
    ],
)
def test_torch_is_asked_only_where_there_may_be_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: str, driver: bool, gpu: bool, cpu: bool
) -> None:
    monkeypatch.setattr(inference, "GPU_FILES", (tmp_path / ("." if driver else "absent"),))
    monkeypatch.setattr(inference, "version", lambda name: build)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    assert inference.on_cpu("auto") is cpu
    assert inference.on_cpu("cpu") and not inference.on_cpu("cuda")


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(300, 300))

    def forward(self, pixels: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        values = pixels.float() @ self.weight * factor
        return values, values.sum(1)


def test_several_inputs_at_once_have_their_own_outputs(tmp_path: Path) -> None:
    path, sums = tmp_path / "network.xml", Sums().eval()
    root = logging.getLogger()
    before = root.level, root.handlers[:], root.filters[:]
    inference.convert(sums, [torch.zeros(1, 300, dtype=torch.uint8), torch.ones(1)], path)
    assert (root.level, root.handlers, root.filters) == before, "warnings are still shown"
    network, random = inference.Network(path), np.random.default_rng(0)
    inputs = [
        (random.integers(0, 256, (1, 300), np.uint8), random.random(1, np.float32))
        for _ in range(50)
    ]
    weight = sums.weight.detach().numpy().astype(np.float64)
    for (pixels, factor), (values, total) in zip(inputs, network(inputs), strict=True):
        right = pixels @ weight * factor
        # In bfloat16, the default on some processors, they would differ in the third digit.
        np.testing.assert_allclose(values, right, rtol=1e-5)
        np.testing.assert_allclose(total, right.sum(1), rtol=1e-5)
    again = network(inputs[:1])
    np.testing.assert_array_equal(again[0][0], network(inputs)[0][0])
    assert network([]) == []
    with ThreadPoolExecutor(3) as callers:
        together = list(callers.map(network, [inputs] * 3))
    for outputs in together:
        for one, other in zip(outputs, network(inputs), strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])


def test_openvino_reports_nothing_to_its_makers() -> None:
    code = (
        "import sys; from sparta.inference import openvino; openvino().Core();"
        "assert sys.modules['openvino_telemetry'] is None; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert inference.openvino().__name__ == "openvino"
