"""Measure servers under load, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.bench.serving.access import Access
from eval.bench.serving.request_parts import time_parts
from eval.bench.serving.server_process import Server, bare_route, serving
from eval.bench.serving.wrk import Load, drive, search_paths
from server.backends import open_backends
from server.settings import ServerSettings
from sparta.errors import InputError
from sparta.progress import Progress, no_progress

WARM_UP = 5  # seconds; Java compiles hot code during the first 20,000 queries or so
WARM_UP_CONNECTIONS = 8
TIMED_PARTS = 2000  # queries
RATE, CONCURRENCY = 1_000_000, 1000  # limits that are counted and never reached
SOCKET = "socket"  # the part that only a server has
BARE = "bare"  # in place of an engine: a route that returns a constant
HEADERS = 130  # bytes of the bare route's headers


@dataclass(frozen=True)
class ServeSetting:
    """How a server is started.

    Attributes:
        engine: as in `sparta serve --engine`, or "bare": one process with a route that returns a
            constant as large as the answers before it.
        workers: its processes.
    """

    engine: str
    workers: int


def serve_settings(engines: str, workers: Sequence[int]) -> list[ServeSetting]:
    """Every engine of a list with commas, with every number of workers.

    Raises:
        InputError: if "bare" comes first.
    """
    names = [name.strip() for name in engines.split(",")]
    if names[0] == BARE:
        raise InputError("--engine: bare comes after an engine, whose answers' size it has")
    return [
        ServeSetting(name, count) for name in names for count in ([1] if name == BARE else workers)
    ]


@dataclass(frozen=True)
class Served:
    """A server under one load.

    Attributes:
        setting: of the server.
        load: as the load generator measured it.
        server_ms: the server's processor time per request, in milliseconds.
    """

    setting: ServeSetting
    load: Load
    server_ms: float

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        figures = {"requests_per_second": self.load.per_second, "server_ms": self.server_ms}
        return asdict(self.setting) | asdict(self.load) | figures


@dataclass(frozen=True)
class UnderLoad:
    """All servers under all loads.

    Attributes:
        images: of the index.
        runs: in the order of measurement.
        parts: engine → part of a request → median milliseconds; see `time_parts`. The
            latency of one worker with one connection minus their sum is the "socket" part: HTTP,
            the system's sockets, and the load generator.
    """

    images: int
    runs: list[Served]
    parts: dict[str, dict[str, float]]

    @property
    def failed(self) -> int:
        """Requests without an answer, or answered with an error."""
        return sum(sum(run.load.errors.values()) for run in self.runs)

    def record(self) -> dict[str, Any]:
        """The figures as JSON values."""
        runs = [run.record() for run in self.runs]
        return {"images": self.images, "runs": runs, "parts_ms": self.parts}

    def table(self) -> Table:
        """The figures as a table."""
        lines = [
            f"{engine}: " + ", ".join(f"{name} {time:.3f}" for name, time in parts.items())
            for engine, parts in self.parts.items()
        ]
        table = Table(
            title=f"{self.images:,} images; times in ms, CPU is the server's for one request",
            caption="\n".join(["One request alone, ms:", *lines]),
            caption_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.add_column("engine")
        for column in ("workers", "at once", "answers/s", "p50", "p95", "p99", "CPU", "errors"):
            table.add_column(column, justify="right")
        for run in self.runs:
            load = run.load
            times = (load.p50_ms, load.p95_ms, load.p99_ms, run.server_ms)
            table.add_row(
                run.setting.engine,
                *(str(run.setting.workers), str(load.connections), f"{load.per_second:,.0f}"),
                *(f"{time:.2f}" for time in times),
                str(sum(load.errors.values())),
            )
        return table


def measure_serving(
    index: Path,
    queries: Sequence[str],
    settings: Sequence[ServeSetting],
    connections: Sequence[int],
    seconds: int,
    k: int,
    progress: Progress = no_progress,
) -> UnderLoad:
    """Start a server for each setting, warm it up, and load it over each number of connections.

    Every request has an API key. Limits are counted, and so high that they refuse nothing.

    Args:
        index: as `sparta index` makes it.
        queries: sent in this order, repeatedly.
        settings: of the servers.
        connections: numbers of connections.
        seconds: for each number.
        k: images of an answer.
        progress: of the stage "load", in loads.

    Raises:
        InputError: if wrk is not installed, or a server does not start.
    """
    runs: list[Served] = []
    with TemporaryDirectory() as folder:
        paths = Path(folder) / "paths.txt"
        paths.write_text("\n".join(search_paths(queries, k)) + "\n", encoding="ascii")
        access = Access.create(Path(folder) / "keys.json", 1)
        limits = {"keys": access.file, "rate": RATE, "concurrency": CONCURRENCY}
        flags = [text for name, value in limits.items() for text in (f"--{name}", str(value))]
        for setting in settings:
            options = ["--engine", setting.engine, "--workers", str(setting.workers), *flags]
            if setting.engine == BARE:
                started = bare_route(round(runs[-1].load.answer_bytes) - HEADERS)
            else:
                started = serving(index, *options)
            with started as server:
                drive(server.address, paths, WARM_UP_CONNECTIONS, WARM_UP, access.search[0])
                for number in connections:
                    runs.append(_load(server, setting, paths, number, seconds, access.search[0]))
                    progress("load", len(runs), len(settings) * len(connections))
        parts, images = {}, 0
        for engine in dict.fromkeys(one.engine for one in settings if one.engine != BARE):
            served = ServerSettings.model_validate({"index": index, "engine": engine, **limits})
            backends = open_backends(served)
            backends.warm_up()
            images = len(backends.default.searcher)
            parts[engine] = time_parts(backends, served, queries[:TIMED_PARTS], k, access.search[0])
            backends.close()
    return UnderLoad(images, runs, {e: own | _socket(e, own, runs) for e, own in parts.items()})


def _load(
    server: Server, setting: ServeSetting, paths: Path, connections: int, seconds: int, key: str
) -> Served:
    before = server.processor_seconds()
    load = drive(server.address, paths, connections, seconds, key)
    used = server.processor_seconds() - before
    return Served(setting, load, 1000 * used / max(1, load.requests))


def _socket(engine: str, parts: dict[str, float], runs: Sequence[Served]) -> dict[str, float]:
    """Latency of one connection to one worker minus the other parts, if that was measured."""
    alone = ServeSetting(engine, 1)
    waits = [run.load.p50_ms for run in runs if (run.setting, run.load.connections) == (alone, 1)]
    return {SOCKET: waits[0] - sum(parts.values())} if waits else {}
