"""A converted network, run by OpenVINO on the CPU in float32."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = tuple[NDArray[Any], ...]


def installed() -> bool:
    """Whether OpenVINO is installed."""
    return find_spec("openvino") is not None


def openvino() -> Any:
    """OpenVINO's package, imported in such a way that it reports nothing to its makers.

    It sends statistics on its use, at its import already, where this other package is found.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


class Network:
    """A converted network; several inputs are computed at once, each by a thread of its own.

    A thread for each input does more than all threads for one: with EfficientNet-Lite2 on two
    cores by two fifths. Several threads may call: the inputs of one call follow those of the one
    before without a pause.

    Args:
        path: of the network, an `.xml` with its `.bin` beside it.

    Raises:
        RuntimeError: if the files are no network.
    """

    def __init__(self, path: Path) -> None:
        ov, threads = openvino(), _cores()
        settings = {
            # By default it is bfloat16 where the processor has it, which changes rankings.
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            # Photos are decoded on the same cores.
            "ENABLE_CPU_PINNING": False,
        }
        compiled = ov.Core().compile_model(path, "CPU", settings)
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(threads):
            self._free.put(compiled.create_infer_request())
        self._threads = ThreadPoolExecutor(threads)

    def __call__(self, inputs: Sequence[Sequence[NDArray[Any]]]) -> list[Arrays]:
        """The outputs of each of several inputs, which are the network's arguments."""
        return list(self._threads.map(self._infer, inputs))

    def _infer(self, arguments: Sequence[NDArray[Any]]) -> Arrays:
        request = self._free.get()
        try:
            request.infer(list(arguments))
            # Copied, since the next input's outputs go to the same memory.
            return tuple(np.array(output.data) for output in request.output_tensors)
        finally:
            self._free.put(request)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
