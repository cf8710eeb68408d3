"""Networks on CPUs without torch: converted once, cached on the disk, and run by OpenVINO."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256 as sha256_of
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparta.errors import InputError
from sparta.files import sha256
from sparta.json_values import Json, JsonMapping

if TYPE_CHECKING:
    from torch import Tensor, nn

Arrays = tuple[NDArray[np.number], ...]
NETWORK = "network.xml"
FORMAT = 3  # of the entries; raised when the code that makes them changes
DESCRIPTION, HASHES = "description.json", "sha256.json"
FOLDER_VARIABLE = "VISUALSPARTA_CACHE"
SHIPPED = Path(__file__).parent / "visualsparta" / "shipped" / "networks"

Make = Callable[[Path], JsonMapping]
# Kernel drivers: NVIDIA's, AMD's, and those of Windows' Linux.
GPU_FILES = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))


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
        bfloat16: whether it computes in bfloat16, on a processor that `computes_bfloat16`, and not
            in float32.
        weights: of a shipped network, the model's file in which most of its constants are: offsets
            in the `.xml` count through that file and then through the `.bin`.
    """

    def __init__(self, path: Path, bfloat16: bool = False, weights: str | None = None) -> None:
        ov, threads = openvino(), _cores()
        self.threads = threads
        settings = {
            # By default it is bfloat16 where the processor has it, which changes rankings.
            "INFERENCE_PRECISION_HINT": "bf16" if bfloat16 else "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": threads,
            # Photos are decoded on the same cores.
            "ENABLE_CPU_PINNING": False,
        }
        core, model = ov.Core(), path
        if weights:
            files = SHIPPED.parent / weights, path.with_suffix(".bin")
            model = core.read_model(path.read_bytes(), b"".join(map(Path.read_bytes, files)))
        self._queue = ov.AsyncInferQueue(core.compile_model(model, "CPU", settings), threads)
        self._queue.set_callback(_keep)
        # The Python binding may deadlock when two threads make its first calls at once.
        self._turn = threading.Lock()

    def __call__(self, inputs: Sequence[Sequence[NDArray[np.number]]]) -> list[Arrays]:
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


def computes_bfloat16(device: str) -> bool:
    """Whether networks on this device run in OpenVINO on a CPU with instructions for bfloat16."""
    if not on_cpu(device):
        return False
    return "BF16" in openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def on_cpu(device: str) -> bool:
    """Whether a network on this device runs on a CPU; "auto" takes a GPU if there is one."""
    if device != "auto":
        return device == "cpu"
    if not _may_have_gpu():
        return True
    import torch

    return not (torch.cuda.is_available() or torch.backends.mps.is_available())


def _may_have_gpu() -> bool:
    """Whether torch is installed in a build that could find a GPU here."""
    try:
        build = version("torch")
    except PackageNotFoundError:
        return False
    if sys.platform == "linux":
        return not build.endswith("+cpu") and any(path.exists() for path in GPU_FILES)
    return True


# ---- conversion ----------------------------------------------------------------------------------


def convert(module: nn.Module, inputs: Sequence[Tensor], path: Path, free: int = 0) -> None:
    """Write a module as OpenVINO's files, weights in float32.

    Args:
        module: in eval mode, on the CPU; its graph may depend on the inputs' shapes alone.
        inputs: examples; the network takes only arguments of these shapes and types.
        path: of the `.xml`; the `.bin` with the weights goes beside it.
        free: how many of the first dimensions of all arguments may have any length.

    Raises:
        Exception: what torch's tracing or OpenVINO raises where it does not know a module.
    """
    import torch

    ov = openvino()
    with torch.inference_mode(), warnings.catch_warnings(), _logging_unchanged():
        warnings.simplefilter("ignore")  # the tracer's, of shapes that it takes as constants
        shapes = [[-1] * free + [*value.shape[free:]] for value in inputs]
        model = ov.convert_model(module, example_input=tuple(inputs), input=shapes)
    ov.save_model(model, path, compress_to_fp16=False)


@contextmanager
def _logging_unchanged() -> Iterator[None]:
    """Undo what OpenVINO's converter does to the root logger, which silences all warnings."""
    root = logging.getLogger()
    level, handlers, filters = root.level, root.handlers[:], root.filters[:]
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:], root.filters[:] = handlers, filters


# ---- the cache: an entry is a folder, complete or not there --------------------------------------


def cache_folder() -> Path:
    """`$VISUALSPARTA_CACHE`, else `visualsparta` in `$XDG_CACHE_HOME` or `~/.cache`."""
    if chosen := os.environ.get(FOLDER_VARIABLE):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "visualsparta"


def find_entry(key: JsonMapping) -> tuple[Path, Json] | None:
    """An entry's folder and description; None if there is none, here or shipped, or it is damaged.

    The shipped models' networks were converted before they were packed, and fit any OpenVINO.
    """
    for folder in (SHIPPED / digest_of(key), _folder(key)):
        try:
            return folder, read_entry(folder)
        except InputError:
            continue
    return None


def read_entry(folder: Path) -> Json:
    """The description of an entry; raises InputError if a file of it is missing or damaged."""
    try:
        if json.loads((folder / HASHES).read_text()) == _hashes(folder):
            description: Json = json.loads((folder / DESCRIPTION).read_text())
            return description
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is no whole converted network: {error}") from error
    raise InputError(f"{folder} is damaged: a file has not the content that {HASHES} states")


def write_entry(folder: Path, description: JsonMapping) -> None:
    """Describe the files in a folder."""
    (folder / DESCRIPTION).write_text(json.dumps(description, indent=2))
    seal(folder)


def add_entry(key: JsonMapping, make: Make) -> tuple[Path, Json]:
    """Make an entry and put it in its place in one step.

    `make` writes the files into the folder that it is given, and returns a description that JSON
    can hold.
    """
    folder = _folder(key)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    try:
        description = dict(make(unfinished))
        write_entry(unfinished, description)
        if find_entry(key) is None:  # another process may have been faster
            shutil.rmtree(folder, ignore_errors=True)
            unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder, description


def _folder(key: JsonMapping) -> Path:
    return cache_folder() / "networks" / digest_of({"openvino": version("openvino"), **key})


def digest_of(key: JsonMapping) -> str:
    """The name of an entry's folder."""
    everything = json.dumps({"format": FORMAT, **key}, sort_keys=True)
    return sha256_of(everything.encode()).hexdigest()[:32]


def seal(folder: Path) -> None:
    """Write the hashes of an entry's files."""
    (folder / HASHES).write_text(json.dumps(_hashes(folder), indent=2))


def _hashes(folder: Path) -> dict[str, str]:
    """File → SHA-256, of all but `HASHES`."""
    return {path.name: sha256(path) for path in folder.iterdir() if path.name != HASHES}
