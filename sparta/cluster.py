"""Work on the machines of a Ray cluster: Ray Data runs it, this module is all that knows Ray.

Ray Data starts the workers, hands them units of work, and gives a unit to another worker when one
dies. Nothing of its checkpoints is used: callers save results as they arrive, and begin the next
run with the units that are left.
"""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import platform
import signal
import socket
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from sparta.errors import InputError, first_line
from sparta.extras import require, set_up_libraries

LOCAL = "local"  # in place of an address: workers on this machine alone
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is reported to Ray's makers
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its notes on the terminal would break the progress bars
}
SECONDS_TO_CONNECT = 5.0
# Java stops its threads by these; without its own handlers it ends the process.
FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
ACTION_BYTES = 256  # at least those of the C library's sigaction

Tool = TypeVar("Tool")
Unit = TypeVar("Unit")
Result = TypeVar("Result")


class WorkerPlan(NamedTuple):
    """The workers of a cluster, which are all alike."""

    workers: int
    cpus: int
    gpus: int


def plan_workers(nodes: Sequence[Mapping[str, float]], device: str) -> WorkerPlan:
    """A worker for each GPU, with its share of the CPUs; for each machine where there are none."""
    equipped = [node for node in nodes if node.get("GPU", 0) >= 1 and device != "cpu"]
    if equipped:
        shares = [node.get("CPU", 0) // node["GPU"] for node in equipped]
        return WorkerPlan(int(sum(node["GPU"] for node in equipped)), max(1, int(min(shares))), 1)
    cpus = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
    return WorkerPlan(max(1, len(cpus)), min(cpus, default=1), 0)


class Cluster:
    """A Ray cluster that this process is connected to; see `connected`.

    A worker is a GPU, with its share of the machine's cores, or a whole machine without GPUs: it
    computes with as many threads as the same work does outside of a cluster. The device "cpu"
    leaves GPUs alone.
    """

    def __init__(self, device: str) -> None:
        self._data = require("ray.data")
        nodes = [node["Resources"] for node in require("ray").nodes() if node["Alive"]]
        self._plan = plan_workers(nodes, device)

    @property
    def workers(self) -> int:
        """How many there are at most."""
        return self._plan.workers

    def map(
        self,
        open_tool: Callable[[], Tool],
        work: Callable[[Tool, Unit], Result],
        units: Sequence[Unit],
    ) -> Generator[Result]:
        """The result of some work on each unit, in order of the units.

        A unit whose worker or machine dies is worked on again by another worker.

        Args:
            open_tool: called once by each worker, before its first unit.
            work: called with a worker's tool and a unit.
            units: of work. All three are pickled; paths in them must be on a file system that all
                machines have, and may be relative to the working directory of this process.

        Raises:
            InputError: if `open_tool` or `work` raises it, with the machine's name before it.
        """
        if not units:
            return
        rows = [{"unit": pickle.dumps(unit)} for unit in units]
        done = self._data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            Worker,
            fn_constructor_args=(open_tool, work, Path.cwd()),
            batch_size=1,
            compute=self._data.ActorPoolStrategy(size=min(self.workers, len(units))),
            num_cpus=self._plan.cpus,
            num_gpus=self._plan.gpus,
        )
        for batch in done.iter_batches(batch_size=None, batch_format="pyarrow"):
            for result in batch["result"]:
                yield _unpacked(result.as_py())


class Worker(Generic[Tool, Unit, Result]):
    """What Ray Data runs on each of the cluster's workers; see `Cluster.map`."""

    def __init__(
        self, open_tool: Callable[[], Tool], work: Callable[[Tool, Unit], Result], folder: Path
    ) -> None:
        set_up_libraries()
        with suppress(OSError):  # relative paths are then reported as absent
            os.chdir(folder)
        self._open_tool, self._work = open_tool, work
        self._tool: Tool | None = None

    def __call__(self, batch: Mapping[str, Sequence[bytes]]) -> dict[str, list[bytes]]:
        """The pickled results of a batch of pickled units; an InputError is a result too."""
        return {"result": [pickle.dumps(self._result(pickle.loads(one))) for one in batch["unit"]]}

    def _result(self, unit: Unit) -> Result | InputError:
        try:
            if self._tool is None:
                self._tool = self._open_tool()
            return self._work(self._tool, unit)
        except InputError as error:
            return InputError(f"on {platform.node()}: {error}")


@contextmanager
def connected(
    address: str | None, device: str = "auto", environment: Mapping[str, str] | None = None
) -> Iterator[Cluster | None]:
    """Connect to a Ray cluster of which this machine is a part; "local" starts one here.

    Args:
        address: HOST:PORT of the cluster's head, "auto" for the one that runs here, or "local";
            None for no cluster.
        device: of the work; "cpu" leaves GPUs alone.
        environment: variables that all processes have which are started from here.

    Raises:
        InputError: if Ray is not installed, or no cluster answers.
    """
    if address is None:
        yield None
        return
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    _check_address(address)
    ray = require("ray")
    context = require("ray.data").DataContext.get_current()
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    # A Ray node with one logical CPU has none left for Ray Data's other tasks.
    here: dict[str, Any] = {"num_cpus": max(2, os.cpu_count() or 1), "include_dashboard": False}
    try:
        with _silent(), same_fault_handlers():
            ray.init(
                address,
                log_to_driver=False,
                logging_level=logging.ERROR,
                runtime_env={"env_vars": dict(environment)} if environment else None,
                **(here if address == LOCAL else {}),
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"--ray {address}: no cluster was found: {first_line(error)}") from error
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    try:
        yield Cluster(device)
    finally:
        with same_fault_handlers():
            ray.shutdown()


@contextmanager
def same_fault_handlers() -> Iterator[None]:
    """Leave this process's handlers of faults as they are, in place of which Ray sets its own."""
    library = ctypes.CDLL(None)
    former = {number: ctypes.create_string_buffer(ACTION_BYTES) for number in FAULTS}
    for number, action in former.items():
        library.sigaction(number, None, action)
    try:
        yield
    finally:
        for number, action in former.items():
            library.sigaction(number, action, None)


@contextmanager
def _silent() -> Iterator[None]:
    """Without the standard error of this process, where Ray's core says what level it logs."""
    sys.stderr.flush()
    former = os.dup(2)
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(former, 2)
        os.close(former)


def _check_address(address: str) -> None:
    """Look whether something listens there, for which Ray itself takes a minute."""
    if address in (LOCAL, "auto"):
        return
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise InputError(
            f"--ray {address}: give local, auto, or HOST:PORT of a cluster that this machine is "
            "part of"
        )
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--ray {address}: no cluster answers there ({first_line(error)}): start one with ray "
            "start --head"
        ) from error


def _unpacked(content: bytes) -> Any:
    """A result of a worker, or its error raised."""
    found = pickle.loads(content)
    if isinstance(found, InputError):
        raise found
    return found
