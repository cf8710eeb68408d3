"""Where a request is recorded when it has been answered: metrics, access log, slow-query log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from starlette.types import Scope

from server.monitoring.json_log import LONGEST, JsonLog
from server.monitoring.metrics import MS, Metrics, WriterCounts
from server.monitoring.record import RequestRecord
from server.settings import ServerSettings

if TYPE_CHECKING:
    from server.monitoring.tracing import Tracing

METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
MEASURED = 5.0  # seconds between two looks at the memory
# What a search is asked: nothing else of a query string is logged, it may have a key.
PARAMETERS = ("q", "k", "backend", "explain", "substitute")


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
