"""Spans of requests, as a collector of OpenTelemetry gets them."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

from server.backends import Backend
from server.monitoring.metrics import Metrics
from server.monitoring.monitor import open_monitor
from sparta.extras import missing_extra
from tests.server.apps import app_of, client_of, settings
from tests.server.fake import FakeSearcher

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


class Collector(BaseHTTPRequestHandler):
    """Takes spans."""

    found: list[ResourceSpans]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.found.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
        assert self.path == "/v1/traces"
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ResourceSpans]]:
    Collector.found = []
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        address = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Collector.found
        server.shutdown()
        thread.join()


def ask(*paths: str) -> None:
    app = app_of(Backend("sparta", FakeSearcher()), tracing=True)
    with client_of(app, raise_server_exceptions=False) as client:
        for path in paths:
            headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-ID": "mine"}
            client.get(path, headers=headers)


def spans_of(found: list[ResourceSpans]) -> list[Span]:
    return [span for one in found for scope in one.scope_spans for span in scope.spans]


def test_a_search_is_a_span_with_its_stages(collected: list[ResourceSpans]) -> None:
    ask("/v1/search?q=secret&explain=true")
    spans = {span.name: span for span in spans_of(collected)}
    root = spans.pop("GET /v1/search")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = {one.key: one.value for one in root.attributes}
    assert attributes["http.response.status_code"].int_value == 200
    assert attributes["visualsparta.request_id"].string_value == "mine"
    assert attributes["visualsparta.engine"].string_value == "columns"
    assert "secret" not in str(collected)
    stages = ["queue", "tokenise", "search", "explain"]
    assert sorted(spans) == sorted(stages)
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    search = spans["search"]
    assert search.end_time_unix_nano - search.start_time_unix_nano == 1_000_000
    assert root.start_time_unix_nano == spans["queue"].start_time_unix_nano
    service = {one.key: one.value.string_value for one in collected[0].resource.attributes}
    assert service["service.name"] == "visualsparta"


def test_errors_and_names(collected: list[ResourceSpans], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "photos")
    ask("/v1/search?q=explode", "/livez")
    failed, well = [span for span in spans_of(collected) if span.name.startswith("GET")]
    assert failed.status.code == Status.STATUS_CODE_ERROR
    assert well.status.code == Status.STATUS_CODE_UNSET
    assert "photos" in str(collected[0].resource)


def test_what_is_not_sampled_is_not_sent(
    collected: list[ResourceSpans], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    ask("/v1/search?q=red")
    assert collected == []


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "server.monitoring.tracing", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ModuleNotFoundError) as refused:
        open_monitor(settings(tracing=True), Metrics())
    assert re.search(r"pip install 'visualsparta\[tracing\]'", str(missing_extra(refused.value)))
