"""A converted network, run by OpenVINO on the CPU."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
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
    cores by two fifths. Several threads may call, and take turns.

    Args:
        path: of the network, an `.xml` with its `.bin` beside it.
        precision: "f32", or "bf16" where the processor has it; ignored where it does not.

    Attributes:
        threads: inputs computed at once.

    Raises:
        RuntimeError: if the files are no network.
    """

    def __init__(self, path: Path, precision: str = "f32") -> None:
        ov, threads = openvino(), _cores()
        self.threads = threads
        settings = {
            # By default it is bfloat16 where the processor has it, which changes rankings.
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            # Photos are decoded on the same cores.
            "ENABLE_CPU_PINNING": False,
        }
        self._queue = ov.AsyncInferQueue(ov.Core().compile_model(path, "CPU", settings), threads)
        self._queue.set_callback(_keep)
        # The Python binding may deadlock when two threads make its first calls at once.
        self._turn = threading.Lock()

    def __call__(self, inputs: Sequence[Sequence[NDArray[Any]]]) -> list[Arrays]:
        """The outputs of each of several inputs, which are the network's arguments."""
        found: list[Arrays] = [()] * len(inputs)
        with self._turn:
            for place, arguments in enumerate(inputs):
                self._queue.start_async(list(arguments), (found, place))
            self._queue.wait_all()
        return found


def _keep(request: Any, place: tuple[list[Arrays], int]) -> None:
    """Copy the outputs of a finished request, whose memory the next one uses."""
    found, number = place
    found[number] = tuple(np.array(output.data) for output in request.output_tensors)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
