"""Traces of requests for OpenTelemetry, made of what is recorded when a request has ended."""

from __future__ import annotations

import os
import time

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import Scope

from server.monitoring.record import RequestRecord

SERVICE = "visualsparta"
SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
PROPAGATED = (b"traceparent", b"tracestate")


class Tracing:
    """Sends a span of each request, with one of each stage of its search in it.

    Where to send them, which to sample and all else is set by OpenTelemetry's own variables
    (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER and so on).
    """

    def __init__(self) -> None:
        named = SERVICE_VARIABLE in os.environ
        resource = Resource.create(None if named else {"service.name": SERVICE})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(__name__)
        self._propagator = TraceContextTextMapPropagator()

    def finished(self, scope: Scope, record: RequestRecord, route: str, seconds: float) -> None:
        """Send the spans of a request that took so long until now."""
        end = time.time_ns()
        start = end - int(seconds * 1e9)
        sent = {
            name.decode(): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in PROPAGATED
        }
        span = self._tracer.start_span(
            f"{scope['method']} {route}",
            self._propagator.extract(sent),
            SpanKind.SERVER,
            start_time=start,
        )
        if span.is_recording():
            self._describe(span, scope, record, route)
            self._add_stages(span, record, start)
        span.end(end)

    def _describe(self, span: Span, scope: Scope, record: RequestRecord, route: str) -> None:
        """Name what was asked and answered, without queries."""
        span.set_attributes(
            {
                "http.request.method": scope["method"],
                "http.route": route,
                "http.response.status_code": record.status,
                "visualsparta.request_id": record.id,
                "visualsparta.index": record.index,
            }
        )
        if record.backend:
            span.set_attribute("visualsparta.backend", record.backend)
            span.set_attribute("visualsparta.engine", record.engine)
        if record.status >= 500:
            span.set_status(StatusCode.ERROR)

    def _add_stages(self, span: Span, record: RequestRecord, start: int) -> None:
        """Stages follow each other from the beginning; what lies between them is not measured."""
        context = set_span_in_context(span)
        for stage, milliseconds in record.stages.items():
            end = start + int(milliseconds * 1e6)
            self._tracer.start_span(stage, context, start_time=start).end(end)
            start = end

    def close(self) -> None:
        """Send what waits, for some seconds at most."""
        self._provider.shutdown()
