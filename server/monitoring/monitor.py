"""Where a request is recorded when it has been answered: metrics, access log, slow-query log."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import JSONEncoder
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from prometheus_client import Counter
from starlette.types import Scope

from server.monitoring.metrics import MS, Metrics, WriterCounts
from server.monitoring.record import RequestRecord
from server.settings import ServerSettings

if TYPE_CHECKING:
    from server.monitoring.tracing import Tracing

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
MEASURED = 5.0  # seconds between two looks at the memory
# What a search is asked: nothing else of a query string is logged, it may have a key.
PARAMETERS = ("q", "k", "backend", "explain", "substitute")
STANDARD_OUTPUT = "-"
DELAY = 0.1  # seconds that a line may wait for others
# What a pipe takes in one piece: lines of several processes never mix.
CHUNK = 4096
LONGEST = 1000  # characters of a text in a line
_encode = JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True)
class Monitor:
    """Where a request is recorded.

    Attributes:
        metrics: of the process.
        access_log: gets every request; None for none.
        slow_log: gets slow searches; None for none.
        slow_ms: milliseconds from which a search is slow.
        tracing: gets every request; None for none.
    """

    metrics: Metrics
    access_log: JsonLog | None = None
    slow_log: JsonLog | None = None
    slow_ms: float = 0.0
    tracing: Tracing | None = None

    def finished(self, scope: Scope, record: RequestRecord) -> None:
        """Record a request that has been answered."""
        seconds = perf_counter() - record.start
        method = scope["method"] if scope["method"] in METHODS else "other"
        route = _route(scope)
        self.metrics.request(method, route, record.status, seconds)
        if record.backend:
            self.metrics.search(record.backend, record.engine, record.search_ms)
        if self.access_log is not None:
            self.access_log.write("request", _access(scope, record, method, route, seconds))
        if self.slow_log is not None and record.backend and seconds * MS >= self.slow_ms:
            self.slow_log.write("slow_query", _slow(scope, record, seconds))
        if self.tracing is not None:
            self.tracing.finished(scope, record, route, seconds)

    def close(self) -> None:
        """Write the last lines."""
        for open_one in (self.access_log, self.slow_log, self.tracing):
            if open_one is not None:
                open_one.close()


def open_monitor(settings: ServerSettings, metrics: Metrics) -> Monitor:
    """Open the logs of a server.

    Raises:
        OSError: if a log cannot be opened.
        ModuleNotFoundError: if traces are wanted, and OpenTelemetry is not installed.
    """
    lost, slow_ms = metrics.lost_lines, settings.slow_query_ms
    access = JsonLog(settings.access_log, lost) if settings.access_log else None
    slow = JsonLog(settings.slow_query_log, lost) if slow_ms is not None else None
    return Monitor(metrics, access, slow, slow_ms or 0.0, _tracing(settings))


def _tracing(settings: ServerSettings) -> Tracing | None:
    if not settings.tracing:
        return None
    # An extra, which takes half a second to load.
    from server.monitoring.tracing import Tracing

    return Tracing()


class Measured(Protocol):
    """An index that is served: `server.backends.Backends`."""

    @property
    def figures(self) -> tuple[int, int, float]: ...  # noqa: D102
    def missing(self) -> Mapping[str, int]: ...  # noqa: D102


async def measure(
    metrics: Metrics,
    index: Callable[[], Measured],
    writer: Callable[[], WriterCounts] | None = None,
) -> None:
    """Look at the memory and the index again and again.

    Args:
        metrics: of the process.
        index: that is served.
        writer: what it has done; None in all workers but one.
    """
    while True:
        metrics.measure_memory()
        # No name here refers to an index, which would stay open until the next look.
        metrics.index(*await asyncio.to_thread(lambda: index().figures))
        metrics.missing(await asyncio.to_thread(index().missing))
        if writer is not None:
            metrics.writer(writer())
        await asyncio.sleep(MEASURED)


def _route(scope: Scope) -> str:
    """The template of the path; never the path itself, of which there are too many."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return "/page" if scope["path"].startswith("/page/") and "endpoint" in scope else "none"


def _access(
    scope: Scope, record: RequestRecord, method: str, route: str, seconds: float
) -> dict[str, Any]:
    client = scope.get("client")
    values = {
        "request_id": record.id,
        "client": client[0] if client else None,
        "method": method,
        "path": scope["path"][:LONGEST],
        "route": route,
        "status": record.status,
        "bytes": record.bytes,
        "ms": _round(seconds * MS),
    }
    return values | _search(record) if record.backend else values


def _slow(scope: Scope, record: RequestRecord, seconds: float) -> dict[str, Any]:
    found = parse_qs(scope["query_string"].decode("latin-1"))
    return {
        "request_id": record.id,
        "path": scope["path"][:LONGEST],
        "ms": _round(seconds * MS),
        **_search(record),
        "parameters": {name: found[name][0][:LONGEST] for name in PARAMETERS if name in found},
    }


def _search(record: RequestRecord) -> dict[str, Any]:
    return {
        "backend": record.backend,
        "engine": record.engine,
        "index": record.index,
        "stages_ms": {stage: _round(time) for stage, time in record.stages.items()},
    }


def _round(milliseconds: float) -> float:
    return round(milliseconds, 3)


class JsonLog:
    """Appends objects to a file or the standard output, from an event loop.

    Lines that cannot be written, as on a full disk, are counted and dropped.

    Args:
        path: of the file, "-" for the standard output.
        lost: counts lines that could not be written.

    Raises:
        OSError: if the file cannot be opened.
    """

    def __init__(self, path: str, lost: Counter) -> None:
        self._file = os.dup(1) if path == STANDARD_OUTPUT else _append(path)
        self._lost = lost
        self._lines: list[bytes] = []
        self._second, self._prefix = 0, ""

    def write(self, event: str, values: dict[str, Any]) -> None:
        """Append an object with the time, the kind of event, and values."""
        line = f'{{"time":"{self._now()}","event":"{event}",{_encode(values)[1:]}\n'
        if not self._lines:
            asyncio.get_running_loop().call_later(DELAY, self.flush)
        self._lines.append(line.encode())

    def flush(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        chunk = b""
        for line in lines:
            if chunk and len(chunk) + len(line) > CHUNK:
                self._append(chunk)
                chunk = b""
            chunk += line
        self._append(chunk)

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.flush()
        os.close(self._file)

    def _append(self, chunk: bytes) -> None:
        try:
            while chunk:
                chunk = chunk[os.write(self._file, chunk) :]
        except OSError:
            self._lost.inc(chunk.count(b"\n"))

    def _now(self) -> str:
        now = time.time()
        if int(now) != self._second:
            self._second = int(now)
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
        return f"{self._prefix}.{int(now % 1 * 1000):03d}Z"


def _append(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
