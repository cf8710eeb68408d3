import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sparta.inference.convert import convert
from sparta.inference.runtime import Network, installed, openvino


class Sums(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(300, 300))

    def forward(self, pixels: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        values = pixels.float() @ self.weight * factor
        return values, values.sum(1)


def test_several_inputs_at_once_have_their_own_outputs(tmp_path: Path) -> None:
    assert installed()
    path, sums = tmp_path / "network.xml", Sums().eval()
    root = logging.getLogger()
    before = root.level, root.handlers[:], root.filters[:]
    convert(sums, [torch.zeros(1, 300, dtype=torch.uint8), torch.ones(1)], path)
    assert (root.level, root.handlers, root.filters) == before, "warnings are still shown"
    network, random = Network(path), np.random.default_rng(0)
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


def test_batches_of_any_length_have_the_outputs_of_each_alone(tmp_path: Path) -> None:
    path, random = tmp_path / "network.xml", np.random.default_rng(0)
    example = [torch.zeros(2, 300, dtype=torch.uint8), torch.ones(2, 1)]
    convert(Sums().eval(), example, path, batches=True)
    network = Network(path)
    pixels = random.integers(0, 256, (7, 300), np.uint8)
    factors = random.random((7, 1), np.float32)
    alone = network([(pixels[i : i + 1], factors[i : i + 1]) for i in range(7)])
    for size in (1, 3, 7):
        parts = [slice(start, start + size) for start in range(0, 7, size)]
        together = network([(pixels[own], factors[own]) for own in parts])
        for output in (0, 1):
            found, right = (np.concatenate([one[output] for one in of]) for of in (together, alone))
            np.testing.assert_allclose(found, right, rtol=1e-5)


def test_files_that_are_no_network_are_refused(tmp_path: Path) -> None:
    (tmp_path / "network.xml").write_text("<net/>")
    with pytest.raises(RuntimeError):
        Network(tmp_path / "network.xml")


def test_openvino_reports_nothing_to_its_makers() -> None:
    code = (
        "import sys; from sparta.inference.runtime import openvino; openvino().Core();"
        "assert sys.modules['openvino_telemetry'] is None; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert openvino().__name__ == "openvino"
