"""The figure has every window with answers and every sample."""

import numpy as np

from eval.bench.soak.figure import draw
from tests.eval.bench.soak.test_measure import failing


def test_lines_of_both_panels() -> None:
    latency, memory = draw(failing()).axes
    assert [line.get_label() for line in latency.lines] == ["p50", "p99"]
    assert [np.array(line.get_ydata()).tolist() for line in latency.lines] == [[2.0], [2.98]]
    assert [np.array(line.get_xdata()).size for line in memory.lines] == [100, 100]
