"""Requests recorded: an id for each, then its metrics, access log, slow-query log and trace."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from json import JSONEncoder
from time import perf_counter
from urllib.parse import parse_qs

from prometheus_client import Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from indexer.answer import Timings
from server.monitoring.metrics import MS, Metrics
from server.settings import ServerSettings
from sparta.json_values import Json

ID_HEADER = b"x-request-id"
INDEX_VERSION = "X-Index-Version"
INDEX_HEADER = INDEX_VERSION.lower().encode()
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
# What a search is asked: nothing else of a query string is logged, it may have a key.
PARAMETERS = ("q", "k", "backend", "explain", "substitute")
STANDARD_OUTPUT = "-"
DELAY = 0.1  # seconds that a line may wait for others
# What a pipe takes in one piece: lines of several processes never mix.
CHUNK = 4096
LONGEST = 1000  # characters of a text in a line
PROBES = ("/livez", "/readyz")  # routes, asked too often to be traced
SERVICE = "visualsparta"
SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
PROPAGATED = (b"traceparent", b"tracestate")
_RECORD = "visualsparta.record"  # in the ASGI scope
# What others may choose: nothing that needs quoting in a log or a header.
_ID = re.compile(rb"[A-Za-z0-9._:+/=@-]{1,128}")
_process = os.urandom(8).hex()
_numbers = count(1)
_encode = JSONEncoder(separators=(",", ":")).encode


@dataclass(slots=True)
class RequestRecord:
    """A request and its answer; stages are measured in milliseconds."""

    id: str  # from X-Request-ID, or made here
    start: float = field(default_factory=perf_counter)  # of the request, by `perf_counter`
    status: int = 0  # of the answer, 0 until it begins
    bytes: int = 0  # of the answer's body so far
    backend: str = ""  # that searched, "" if none did
    engine: str = ""  # of that backend
    index: str = ""  # version of the index that was searched
    search_ms: float = 0.0  # of the whole search, without waiting and explanations
    # Stage → its time, in order: "queue", "tokenise", "encode", "search", "explain"
    stages: dict[str, float] = field(default_factory=dict)

    def searched(self, backend: str, engine: str, timings: Timings) -> None:
        """Record what searched, and its times."""
        self.backend, self.engine, self.search_ms = backend, engine, timings.total_ms
        self.stages["tokenise"] = timings.tokenise_ms
        if timings.encode_ms:
            self.stages["encode"] = timings.encode_ms
        self.stages["search"] = timings.search_ms
        if timings.explain_ms is not None:
            self.stages["explain"] = timings.explain_ms


def begin(scope: Scope) -> RequestRecord:
    """The record of a request that has just arrived."""
    record = scope[_RECORD] = RequestRecord(_request_id(scope["headers"]))
    return record


def record_of(scope: Scope) -> RequestRecord:
    """The record of a request; one that nobody reads if the request did not come by HTTP."""
    found: RequestRecord | None = scope.get(_RECORD)
    return found or RequestRecord("")


def _request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == ID_HEADER and _ID.fullmatch(value):
            return value.decode("ascii")
    return f"{_process}-{next(_numbers):x}"


class Monitoring:
    """Middleware that records every request; the answer names its id and the index it is of."""

    def __init__(self, app: ASGIApp, monitor: Monitor) -> None:
        self.app, self.monitor = app, monitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and record it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        record = begin(scope)

        async def send_recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], *headers_of(record)]
            else:
                record.bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_recorded)
        finally:
            # Without an answer it is an unexpected error, which is answered outside of this.
            record.status = record.status or 500
            self.monitor.finished(scope, record)


def headers_of(record: RequestRecord) -> list[tuple[bytes, bytes]]:
    """The headers that name a request and the index that answered it."""
    headers = [(ID_HEADER, record.id.encode())]
    # Without an index the request was refused before it reached one.
    return [*headers, (INDEX_HEADER, record.index.encode())] if record.index else headers


@dataclass(frozen=True)
class Monitor:
    """Where a request is recorded."""

    metrics: Metrics  # of the process
    access_log: JsonLog | None = None  # gets every request; None for none
    slow_log: JsonLog | None = None  # gets slow searches; None for none
    slow_ms: float = 0.0  # milliseconds from which a search is slow
    tracing: Tracing | None = None  # gets every request; None for none

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
        if self.tracing is not None and route not in PROBES:
            self.tracing.finished(scope, record, route, seconds)

    def close(self) -> None:
        """Write the last lines."""
        for open_one in (self.access_log, self.slow_log, self.tracing):
            if open_one is not None:
                open_one.close()


def open_monitor(settings: ServerSettings, metrics: Metrics) -> Monitor:
    """Open the logs of a server.

    Raises OSError if a log cannot be opened; ModuleNotFoundError if traces are wanted, and
    OpenTelemetry is not installed.
    """
    lost, slow_ms = metrics.lost_lines, settings.slow_query_ms
    access = JsonLog(settings.access_log, lost) if settings.access_log else None
    slow = JsonLog(settings.slow_query_log, lost) if slow_ms is not None else None
    return Monitor(metrics, access, slow, slow_ms or 0.0, Tracing() if settings.tracing else None)


def _route(scope: Scope) -> str:
    """The template of the path; never the path itself, of which there are too many."""
    route = scope.get("route")
    if route is not None:
        return str(route.path)
    return "/page" if scope["path"].startswith("/page/") and "endpoint" in scope else "none"


def _access(scope: Scope, record: RequestRecord, method: str, route: str, seconds: float) -> Json:
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


def _slow(scope: Scope, record: RequestRecord, seconds: float) -> Json:
    found = parse_qs(scope["query_string"].decode("latin-1"))
    return {
        "request_id": record.id,
        "path": scope["path"][:LONGEST],
        "ms": _round(seconds * MS),
        **_search(record),
        "parameters": {name: found[name][0][:LONGEST] for name in PARAMETERS if name in found},
    }


def _search(record: RequestRecord) -> Json:
    return {
        "backend": record.backend,
        "engine": record.engine,
        "index": record.index,
        "stages_ms": {stage: _round(time) for stage, time in record.stages.items()},
    }


def _round(milliseconds: float) -> float:
    return round(milliseconds, 3)


class JsonLog:
    """Appends objects to a file, or the standard output for "-", from an event loop.

    The file is opened anew each time: it may have been moved away, as by logrotate. Lines that
    cannot be written, as on a full disk, are counted and dropped. Raises OSError if the file
    cannot be opened.
    """

    def __init__(self, path: str, lost: Counter) -> None:
        self._path, self._lost = path, lost
        self._file = os.dup(1) if path == STANDARD_OUTPUT else self._open()
        self._lines: list[bytes] = []
        self._second, self._prefix = 0, ""

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)

    def _follow(self) -> None:
        """Open the file anew unless it is still in its place, or none can be made there."""
        with suppress(OSError):
            former, new = self._file, self._open()
            self._file = new
            os.close(former)

    def write(self, event: str, values: Json) -> None:
        """Append an object with the time, the kind of event, and values."""
        line = f'{{"time":"{self._now()}","event":"{event}",{_encode(values)[1:]}\n'
        if not self._lines:
            asyncio.get_running_loop().call_later(DELAY, self.flush)
        self._lines.append(line.encode())

    def flush(self) -> None:
        """Write what waits."""
        if self._path != STANDARD_OUTPUT:
            self._follow()
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


class Tracing:
    """Sends OpenTelemetry a span of each request, with one of each stage of its search in it.

    Where to send them, which to sample and all else is set by OpenTelemetry's own variables
    (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and so on).
    """

    def __init__(self) -> None:
        # An extra, which takes half a second to load.
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        named = SERVICE_VARIABLE in os.environ
        resource = Resource.create(None if named else {"service.name": SERVICE})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(__name__)
        self._propagator = TraceContextTextMapPropagator()

    def finished(self, scope: Scope, record: RequestRecord, route: str, seconds: float) -> None:
        """Send the spans of a request that took so long until now."""
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        end = time.time_ns()
        start = end - int(seconds * 1e9)
        sent = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in PROPAGATED
        }
        name, context = f"{scope['method']} {route}", self._propagator.extract(sent)
        span = self._tracer.start_span(name, context, SpanKind.SERVER, start_time=start)
        if span.is_recording():
            # What was asked and answered, without queries.
            about = {
                "http.request.method": scope["method"],
                "http.route": route,
                "http.response.status_code": record.status,
                "visualsparta.request_id": record.id,
                "visualsparta.index": record.index,
            }
            if record.backend:
                about["visualsparta.backend"] = record.backend
                about["visualsparta.engine"] = record.engine
            span.set_attributes(about)
            if record.status >= 500:
                span.set_status(StatusCode.ERROR)
            # Stages follow each other from the beginning; what lies between is not measured.
            inside, at = set_span_in_context(span), start
            for stage, milliseconds in record.stages.items():
                stage_end = at + int(milliseconds * 1e6)
                self._tracer.start_span(stage, inside, start_time=at).end(stage_end)
                at = stage_end
        span.end(end)

    def close(self) -> None:
        """Send what waits, for some seconds at most."""
        self._provider.shutdown()
